package document

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestWorstDocumentsCostLittle holds what a writer of documents can cost: every
// shape at its limit. Memory is what is measured, since time is not the same
// twice; it would be gigabytes if each node's path were made.
func TestWorstDocumentsCostLittle(t *testing.T) {
	key := strings.Repeat("k", 30)
	deep := strings.Repeat(`{"`+key+`":`, MaxDepth-2)
	for name, text := range map[string]string{
		"many items far down":      deep + `[` + strings.Repeat("1,", 250_000) + `1]` + strings.Repeat("}", MaxDepth-2),
		"many lists far down":      deep + `[` + strings.Repeat("[],", 150_000) + `[]]` + strings.Repeat("}", MaxDepth-2),
		"a very long key above":    `{"` + strings.Repeat("k", 200_000) + `":[` + strings.Repeat("[],", 80_000) + `1]}`,
		"many keys":                `{` + manyKeys(25_000) + `"z":1}`,
		"one very long text":       `["` + strings.Repeat(`\u0001`, 80_000) + `"]`,
		"many references far down": deep + `[` + strings.Repeat(`"env://A",`, MaxReferences) + `1]` + strings.Repeat("}", MaxDepth-2),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			v, err := Parse([]byte(text))
			if err == nil {
				s := fresh()
				if _, err = s.Update(t.Context(), Update{Document: "app", Content: &v}, vaultOf{}, nil); err == nil {
					if _, err = s.Resolve("app", vaultOf{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			wantIs(t, err)
			runtime.ReadMemStats(&after)
			mib := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d bytes, %d MiB allocated, %v, error: %v", len(text), mib, time.Since(began).Round(time.Millisecond), err)
			if mib > 400 {
				t.Fatalf("%d MiB were allocated", mib)
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String() + `":0,`)
	}
	return b.String()
}

func BenchmarkInstall(b *testing.B) {
	s := fresh()
	vault := vaultOf{"db": {Values: Values{"pw": Value{}}}}
	content := `{`
	for i := range 100 {
		content += `"` + strings.Repeat("k", i+1) + `":{"password":"lease://db#pw","port":5432},`
	}
	v, err := Parse([]byte(content + `"z":1}`))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Update(b.Context(), Update{Document: "app", Content: &v}, vault, nil); err != nil {
		b.Fatal(err)
	}
	one, _ := FromAny("1")
	for b.Loop() {
		in, err := s.Install(b.Context(), "db", Values{"pw": one})
		if err != nil || !in.Changed() {
			b.Fatal(err)
		}
		if err := in.End(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
