package document

import (
	"os"
	"strings"
	"testing"
)

// fenced gives the code blocks of docs/documents.md that are marked so.
func fenced(t *testing.T, mark string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/documents.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "\n```"+mark+"\n")[1:] {
		block, _, closed := strings.Cut(part, "\n```")
		if !closed {
			t.Fatalf("a block of %s is not closed", mark)
		}
		blocks = append(blocks, block)
	}
	if len(blocks) == 0 {
		t.Fatalf("docs/documents.md has no block of %s", mark)
	}
	return blocks
}

func TestTheExamplesOfTheDocumentationHold(t *testing.T) {
	var docs []Document
	for _, block := range fenced(t, "json document") {
		doc, err := New("app", 1, tree(t, block))
		if err != nil {
			t.Fatalf("%v\n%s", err, block)
		}
		docs = append(docs, doc)
	}
	var uses []string
	for _, use := range docs[0].References() {
		uses = append(uses, use.Path.String())
	}
	wantText(t, "the first example", strings.Join(uses, " "),
		"arguments[2] broker.password database.password database.user servers[0].token servers[1].token")
	uses = nil
	for _, use := range docs[1].References() {
		uses = append(uses, use.Path.String())
	}
	wantText(t, "the second example", strings.Join(uses, " "), "both[0] both[1] fallback mixed[0]")
	h := held{doc: docs[2]}
	wantText(t, "the third example", string(h.tree().Encode()), `{"help":"lease://NAME#KEY is a reference"}`)

	for _, line := range strings.Split(fenced(t, "text references")[0], "\n") {
		if ref, err := ParseReference(line); err != nil || ref.String() != line {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range strings.Split(fenced(t, "text not-references")[0], "\n") {
		if _, err := ParseReference(line); err == nil || !IsReference(line) {
			t.Errorf("%s is taken, or taken for a text", line)
		}
	}
	for _, line := range strings.Split(fenced(t, "text paths")[0], "\n") {
		if p, err := ParsePath(line); err != nil || p.String() != line {
			t.Errorf("%s is written %s, %v", line, p, err)
		}
	}
	for _, line := range strings.Split(fenced(t, "text not-paths")[0], "\n") {
		if _, err := ParsePath(line); err == nil {
			t.Errorf("%s is taken", line)
		}
	}
}
