package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/leasesvc/leasesvc/events"
)

// Definitions is a definitions file that was read and found right.
type Definitions struct {
	// File is the file's name as it was given.
	File string
	// Revision orders files: one applies only above the last applied revision.
	Revision uint64
	// Leases are the definitions by name, every default filled in, required
	// keys and consumers sorted by name.
	Leases map[string]events.Definition
	// Documents are the settings documents by name, as trees that
	// encoding/json would give (numbers as [json.Number]).
	Documents map[string]any

	revisionAt Position
	places     map[string]Position
}

// Option changes the rules that [LoadDefinitions] goes by.
type Option func(*rules)

// rules is what a definitions file is held to beside its own words.
type rules struct {
	vaults   []string
	insecure bool
	// checkReference looks at each text of a document, checkDocument at the whole.
	checkReference func(text string) error
	checkDocument  func(name string, content any) error
	// commands are the programs that a verifier may run, if boundToCommands.
	commands        []string
	boundToCommands bool
	// checkVerifier is nil where nobody will use them.
	checkVerifier func(events.Verifier) error
}

// InsecureConsumers says whether a consumer may have no key.
func InsecureConsumers(allowed bool) Option { return func(r *rules) { r.insecure = allowed } }

// VerifierCommands lists the programs that a verifier of kind command may run.
// Without this option any may: for who only looks at a file.
func VerifierCommands(allowed []string) Option {
	return func(r *rules) { r.commands, r.boundToCommands = allowed, true }
}

// CheckVerifier sets a second look at a verifier, by who will use it. Its error
// is shown; it must not repeat the DSN.
func CheckVerifier(check func(events.Verifier) error) Option {
	return func(r *rules) { r.checkVerifier = check }
}

// CheckDocument sets a second look at the settings documents of the file: at each
// text in one, so that it is told where a reference is wrong, and at the whole.
// Their errors are shown; they must not repeat what they look at.
func CheckDocument(text func(text string) error, whole func(name string, content any) error) Option {
	return func(r *rules) { r.checkReference, r.checkDocument = text, whole }
}

// LoadDefinitions reads a definitions file; vaults are the names of the Vault
// connections that it may use. What is wrong comes back as [*Errors].
func LoadDefinitions(file string, vaults []string, opts ...Option) (*Definitions, error) {
	src, err := readFile(file)
	if err != nil {
		return nil, err
	}
	return ParseDefinitions(file, src, vaults, opts...)
}

// ParseDefinitions is [LoadDefinitions] for a file's content; file is its name
// in errors. What is wrong comes back as [*Errors], each with a position.
func ParseDefinitions(file string, src []byte, vaults []string, opts ...Option) (*Definitions, error) {
	root, errs := parseTree(file, src)
	if root == nil {
		return nil, inFileOrder(errs)
	}
	r := rules{vaults: vaults}
	for _, o := range opts {
		o(&r)
	}
	d := &decoder{file: file, dir: filepath.Dir(file), errs: errs}
	defs := &Definitions{File: file, Leases: map[string]events.Definition{}, Documents: map[string]any{}, places: map[string]Position{}}
	if root.kind == nothing {
		d.failAt(Position{1, 1}, "", "the file is empty; needed: revision, leases (see docs/configuration.md)")
	} else {
		defs.read(d, root, r)
	}
	if err := inFileOrder(d.errs); err != nil {
		return nil, err
	}
	return defs, nil
}

// read reads the defaults first, wherever they stand: the leases begin from
// them.
func (defs *Definitions) read(d *decoder, root *node, r rules) {
	base := newDraft(r)
	if root.kind == mapping {
		for _, e := range root.entries {
			if e.name == "revision" {
				defs.revisionAt = e.Position
			}
			if e.name == "defaults" && e.value.kind == mapping {
				base.shape(true).read(&decoder{file: d.file, dir: d.dir}, e.value, place{e.name, e.Position})
			}
		}
	}
	defs.shape(base).read(d, root, place{Position: Position{1, 1}})
}

// Position tells where a lease's definition stands in the file.
func (defs *Definitions) Position(lease string) Position { return defs.places[lease] }

// Refuse gives an error at a lease of the file, or at its revision if there is
// no such lease (name it ""). The result is an [*Errors].
func (defs *Definitions) Refuse(lease, format string, args ...any) error {
	at, key := defs.revisionAt, "revision"
	if p, ok := defs.places[lease]; ok {
		at, key = p, "leases."+lease
	}
	return &Errors{List: []*Error{{File: defs.File, Line: at.Line, Column: at.Column, Key: key, Message: fmt.Sprintf(format, args...)}}}
}

// DocumentPosition tells where a document stands in the file.
func (defs *Definitions) DocumentPosition(name string) Position {
	return defs.places["documents."+name]
}

// Digest gives "sha256:..." over what the definitions of leases say, the revision
// left out; documents are not in it, since they may hold secrets: two files with one revision and different digests contradict each
// other. The order of keys, of leases, of consumers and of required keys, how
// a number is written, and whether a default is spelled out make no
// difference.
func (defs *Definitions) Digest() string {
	h := sha256.New()
	h.Write([]byte("leasesvc definitions 1\n"))
	// A map is written with sorted keys, a duration with its shortest digits.
	b, err := json.Marshal(defs.Leases)
	if err != nil {
		panic(fmt.Sprintf("encoding definitions that were read: %v", err)) // texts, bools and finite decimals only
	}
	h.Write(b)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
