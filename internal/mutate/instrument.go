package mutate

import (
	"bytes"
	"fmt"
	"strconv"
)

// environ is the variable that tells a test binary which mutant it is to be; 0
// or nothing: the original.
const environ = "MUTANT"

// switchFile is added to the package that is mutated.
const switchFile = "zz_mutant_switch.go"

func switchSource(pkg string) []byte {
	return fmt.Appendf(nil, `package %s

import (
	"os"
	"strconv"
)

var mutantInForce = func() int {
	n, _ := strconv.Atoi(os.Getenv(%q))
	return n
}()
`, pkg, environ)
}

// place is where a mutant ended up in the instrumented file.
type place struct {
	mutant     *Mutant
	start, end int
}

// instrument puts mutants into a file. Those in a function become cases of a
// switch in front of its body, each a copy of the whole body as a function of
// its own, so that labels, results and missing returns are the copy's. One
// outside of functions is edited in place.
func instrument(src []byte, mutants []*Mutant) ([]byte, []place) {
	var out bytes.Buffer
	var places []place
	put := func(m *Mutant, start, end int) {
		from := out.Len()
		out.Write(src[start:m.start])
		out.WriteString(m.text)
		out.Write(src[m.end:end])
		places = append(places, place{mutant: m, start: from, end: out.Len()})
	}
	done := 0
	for i := 0; i < len(mutants); {
		m := mutants[i]
		if m.outside {
			out.Write(src[done:m.start])
			put(m, m.start, m.end)
			done = m.end
			i++
			continue
		}
		body := m.body
		out.Write(src[done : body.start+1])
		done = body.start + 1
		out.WriteString("\nswitch mutantInForce {\n")
		for ; i < len(mutants) && mutants[i].body == body; i++ {
			m := mutants[i]
			out.WriteString("case " + strconv.Itoa(m.number) + ":\n")
			if body.results != "" {
				out.WriteString("return func() " + body.results + " ")
				put(m, body.start, body.end)
				out.WriteString("()\n")
			} else {
				out.WriteString("func() ")
				put(m, body.start, body.end)
				out.WriteString("()\nreturn\n")
			}
		}
		out.WriteString("}\n")
	}
	out.Write(src[done:])
	return out.Bytes(), places
}
