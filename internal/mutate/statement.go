package mutate

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

const removed = "(removed)"

func countLines(b []byte) int { return bytes.Count(b, []byte("\n")) }

// statement mutates a statement as a whole.
func (f *finder) statement(s ast.Stmt, above []ast.Node) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		f.assignment(s)
	case *ast.ReturnStmt:
		f.returning(s, above)
	case *ast.CaseClause:
		f.caseBody(s)
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt:
		if len(above) > 0 && holdsStatements(above[len(above)-1]) {
			f.remove(s)
		}
	}
}

// holdsStatements tells whether a child of the node may be left out: not the
// one in the head of a for or an if.
func holdsStatements(n ast.Node) bool {
	switch n.(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}

func (f *finder) remove(s ast.Stmt) {
	f.addText(f.offset(s.Pos()), f.offset(s.End()), f.text(s), "", removed)
}

// assignment leaves out what is assigned, one target at a time.
func (f *finder) assignment(s *ast.AssignStmt) {
	if s.Tok == token.DEFINE {
		return
	}
	for _, op := range operators[s.Tok] {
		f.add(s, f.text(s.Lhs[0])+" "+op.String()+" "+f.text(s.Rhs[0]))
	}
	if len(s.Lhs) == 1 {
		f.remove(s)
		return
	}
	for i, target := range s.Lhs {
		if id, ok := target.(*ast.Ident); ok && id.Name == "_" {
			continue
		}
		targets := make([]string, len(s.Lhs))
		for j, t := range s.Lhs {
			targets[j] = f.text(t)
		}
		targets[i] = "_"
		text := strings.Join(targets, ", ") + " = " + string(f.src[f.offset(s.Rhs[0].Pos()):f.offset(s.End())])
		f.addText(f.offset(s.Pos()), f.offset(s.End()), f.text(target)+" assigned", text, removed)
	}
}

// caseBody empties a case, unless that is what removing its one statement does.
func (f *finder) caseBody(c *ast.CaseClause) {
	if len(c.Body) == 0 {
		return
	}
	if len(c.Body) == 1 {
		switch s := c.Body[0].(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt:
			return
		case *ast.AssignStmt:
			if len(s.Lhs) == 1 {
				return
			}
		}
	}
	head := "default"
	if c.List != nil {
		head = string(f.src[f.offset(c.Pos()):f.offset(c.Colon)])
	}
	f.addText(f.offset(c.Body[0].Pos()), f.offset(c.Body[len(c.Body)-1].End()), head+": body", "", removed)
}

// returning replaces what is returned by zero values, and an empty string by
// another.
func (f *finder) returning(s *ast.ReturnStmt, above []ast.Node) {
	results := f.resultsAround(above)
	if len(s.Results) == 0 {
		if len(results) == 0 {
			f.remove(s)
		}
		return
	}
	zeros, same := make([]string, len(results)), len(s.Results) == len(results)
	for i, t := range results {
		zeros[i] = zero(t, f.qualify)
		// One call may give them all: then there is no i-th.
		same = same && (f.text(s.Results[i]) == zeros[i] || f.isEmptyStruct(s.Results[i]))
	}
	if same {
		if len(zeros) == 1 && zeros[0] == `""` {
			f.add(s, `return "mutant"`)
		}
		return
	}
	if id, ok := s.Results[0].(*ast.Ident); ok && len(s.Results) == 1 && id.Name == "true" {
		return // the constant is mutated
	}
	f.add(s, "return "+strings.Join(zeros, ", "))
}

// isEmptyStruct tells whether an expression is T{} of a struct: a zero value.
func (f *finder) isEmptyStruct(e ast.Expr) bool {
	lit, ok := e.(*ast.CompositeLit)
	if !ok || len(lit.Elts) > 0 {
		return false
	}
	_, ok = f.info.TypeOf(lit).Underlying().(*types.Struct)
	return ok
}

// resultsAround gives the result types of the innermost function.
func (f *finder) resultsAround(above []ast.Node) (out []types.Type) {
	var list *ast.FieldList
	for _, n := range above {
		switch n := n.(type) {
		case *ast.FuncDecl:
			list = n.Type.Results
		case *ast.FuncLit:
			list = n.Type.Results
		}
	}
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for range max(len(field.Names), 1) {
			out = append(out, f.info.TypeOf(field.Type))
		}
	}
	return out
}

// qualify names a package as a file does that does not rename it.
func (f *finder) qualify(p *types.Package) string {
	if p == f.pkg {
		return ""
	}
	return p.Name()
}

// zero spells a type's zero value.
func zero(t types.Type, q types.Qualifier) string {
	if _, generic := types.Unalias(t).(*types.TypeParam); !generic {
		switch u := t.Underlying().(type) {
		case *types.Basic:
			switch {
			case u.Info()&types.IsBoolean != 0:
				return "false"
			case u.Info()&types.IsString != 0:
				return `""`
			case u.Info()&types.IsNumeric != 0:
				return "0"
			}
		case *types.Pointer, *types.Slice, *types.Map, *types.Interface, *types.Signature, *types.Chan:
			return "nil"
		}
	}
	return "*new(" + types.TypeString(t, q) + ")"
}
