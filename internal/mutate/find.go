package mutate

import (
	"go/ast"
	"go/token"
	"go/types"
	"sort"
)

// operators lists what takes an operator's place. A comparison gets its
// opposite and its other boundary; what would only repeat one of them is left
// out.
var operators = map[token.Token][]token.Token{
	token.EQL:  {token.NEQ},
	token.NEQ:  {token.EQL},
	token.LSS:  {token.LEQ, token.GEQ},
	token.LEQ:  {token.LSS, token.GTR},
	token.GTR:  {token.GEQ, token.LEQ},
	token.GEQ:  {token.GTR, token.LSS},
	token.LAND: {token.LOR},
	token.LOR:  {token.LAND},
	token.ADD:  {token.SUB},
	token.SUB:  {token.ADD},
	token.MUL:  {token.QUO},
	token.QUO:  {token.MUL},
	token.REM:  {token.MUL},
	token.SHL:  {token.SHR},
	token.SHR:  {token.SHL},
	token.AND:  {token.OR},
	token.OR:   {token.AND},

	token.ADD_ASSIGN: {token.SUB_ASSIGN},
	token.SUB_ASSIGN: {token.ADD_ASSIGN},
}

// finder collects the mutants of one file.
type finder struct {
	fset *token.FileSet
	info *types.Info
	pkg  *types.Package
	path string // below the module's root
	src  []byte

	mutants []*Mutant
	where   string
	body    body
	outside bool
}

// find gives the mutants of a file in the order of the source.
func (f *finder) find(file *ast.File) []*Mutant {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.function(d)
		case *ast.GenDecl:
			f.declaration(d)
		}
	}
	sort.SliceStable(f.mutants, func(i, j int) bool { return f.mutants[i].start < f.mutants[j].start })
	alike := map[string]int{}
	for _, m := range f.mutants {
		key := m.Func + ":" + m.Old + "→" + m.New
		alike[key]++
		m.Nth = alike[key]
	}
	return f.mutants
}

func (f *finder) function(d *ast.FuncDecl) {
	if d.Body == nil {
		return
	}
	f.where, f.outside = d.Name.Name, false
	if d.Recv != nil && len(d.Recv.List) == 1 {
		f.where = receiver(d.Recv.List[0].Type) + "." + f.where
	}
	f.body = body{start: f.offset(d.Body.Pos()), end: f.offset(d.Body.End())}
	if d.Type.Results != nil {
		f.body.results = f.text(d.Type.Results)
	}
	f.walk(d)
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func (f *finder) declaration(d *ast.GenDecl) {
	f.outside = true
	for _, s := range d.Specs {
		if v, ok := s.(*ast.ValueSpec); ok {
			f.where = v.Names[0].Name
			for _, e := range v.Values {
				if !usesIota(e) {
					f.walk(e)
				}
			}
		}
	}
}

func usesIota(e ast.Expr) (yes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		yes = yes || ok && id.Name == "iota"
		return true
	})
	return yes
}

// walk visits a node and what is below it.
func (f *finder) walk(root ast.Node) {
	ast.PreorderStack(root, nil, func(n ast.Node, above []ast.Node) bool {
		var parent ast.Node
		if len(above) > 0 {
			parent = above[len(above)-1]
		}
		switch n := n.(type) {
		case *ast.FuncType, *ast.FieldList:
			return false
		case ast.Expr:
			f.expression(n, parent, above)
		case ast.Stmt:
			f.statement(n, above)
		}
		return true
	})
}

func (f *finder) expression(e ast.Expr, parent ast.Node, above []ast.Node) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		for _, op := range operators[e.Op] {
			text := f.text(e.X) + " " + op.String() + " " + f.text(e.Y)
			if _, inner := parent.(*ast.BinaryExpr); inner && op == token.LOR {
				text = "(" + text + ")" // it binds less than the && before it
			}
			f.add(e, text)
		}
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			f.add(e, f.text(e.X))
		}
	case *ast.Ident:
		switch f.info.Uses[e] {
		case types.Universe.Lookup("true"):
			f.add(e, "false")
		case types.Universe.Lookup("false"):
			f.add(e, "true")
		}
	case *ast.BasicLit:
		if e.Kind == token.INT && !isCapacity(e, parent) {
			f.add(e, "("+e.Value+" + 1)")
		}
	case *ast.CallExpr:
		f.call(e)
	case *ast.CompositeLit:
		f.fields(e)
	}
	if f.isCondition(e, parent, above) {
		f.add(e, "!"+f.text(e))
	}
}

// isCapacity tells whether a number only sizes memory.
func isCapacity(e ast.Expr, parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.CallExpr:
		id, ok := p.Fun.(*ast.Ident)
		return ok && id.Name == "make" && (len(p.Args) == 3 && p.Args[2] == e)
	case *ast.SliceExpr:
		return p.Max == e
	}
	return false
}

// isCondition tells whether an expression decides by itself and has no operator
// that is mutated anyway.
func (f *finder) isCondition(e ast.Expr, parent ast.Node, above []ast.Node) bool {
	switch e := e.(type) {
	case *ast.CallExpr, *ast.SelectorExpr, *ast.IndexExpr, *ast.TypeAssertExpr:
	case *ast.Ident:
		if u := f.info.Uses[e]; u == nil || u.Parent() == types.Universe {
			return false
		}
	default:
		return false
	}
	if t, ok := f.info.TypeOf(e).(*types.Basic); !ok || t.Info()&types.IsBoolean == 0 {
		return false
	}
	switch p := parent.(type) {
	case *ast.IfStmt, *ast.ForStmt:
		return true
	case *ast.BinaryExpr:
		return p.Op == token.LAND || p.Op == token.LOR
	case *ast.CaseClause:
		sw, ok := above[len(above)-3].(*ast.SwitchStmt)
		return ok && sw.Tag == nil
	}
	return false
}

// call mutates a few calls that are comparisons in disguise.
func (f *finder) call(e *ast.CallExpr) {
	switch fun := e.Fun.(type) {
	case *ast.Ident:
		other := map[string]string{"min": "max", "max": "min"}[fun.Name]
		if other != "" && f.info.Uses[fun] == types.Universe.Lookup(fun.Name) {
			f.add(e, other+string(f.src[f.offset(fun.End()):f.offset(e.End())]))
		}
	case *ast.SelectorExpr:
		// The other boundary: a < b becomes a <= b. The opposite comes from
		// where the call is the condition.
		other := map[string]string{"Before": "After", "After": "Before"}[fun.Sel.Name]
		if t := f.info.TypeOf(fun.X); other != "" && t != nil && types.TypeString(t, nil) == "time.Time" {
			f.add(e, "!"+f.text(fun.X)+"."+other+string(f.src[f.offset(fun.End()):f.offset(e.End())]))
		}
	}
}

// fields leaves out one field of a struct's literal at a time.
func (f *finder) fields(e *ast.CompositeLit) {
	t := f.info.TypeOf(e)
	if t == nil {
		return
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return
	}
	for i, el := range e.Elts {
		if _, ok := el.(*ast.KeyValueExpr); !ok {
			return
		}
		start, end := f.offset(el.Pos()), f.offset(e.Rbrace)
		if i+1 < len(e.Elts) {
			end = f.offset(e.Elts[i+1].Pos())
		}
		f.addText(start, end, f.text(el), "", "(left out)")
	}
}

func (f *finder) add(n ast.Node, text string) {
	f.addText(f.offset(n.Pos()), f.offset(n.End()), f.text(n), text, fragment(text))
}

func (f *finder) addText(start, end int, old, text, shown string) {
	f.mutants = append(f.mutants, &Mutant{
		File: f.path, Line: 1 + countLines(f.src[:start]), Func: f.where, Old: fragment(old), New: shown,
		start: start, end: end, text: text, body: f.body, outside: f.outside,
	})
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.src[f.offset(n.Pos()):f.offset(n.End())])
}
