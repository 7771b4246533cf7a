package document

import "fmt"

// View is a document as its readers may see it, with what can't be read left
// out: null stands there, and [View.Uses] says why.
type View struct {
	Resolved
	// Uses are all places that references fill, by path.
	Uses []Filled
}

// Filled is one place of a document and what fills it.
type Filled struct {
	Use
	// By is the reference whose value stands there; nil: none does.
	By *Reference
	// Err says why none does: as [Store.Resolve] would.
	Err error
}

// Missing gives the first place without a value as an error; nil: there is none.
func (v View) Missing() error {
	for _, u := range v.Uses {
		if u.By == nil {
			return fmt.Errorf("resolving %s of document %s: %w", u.Path, v.Name(), u.Err)
		}
	}
	return nil
}

// View gives a document as [Store.Resolve] does, and where that can't what there
// is of it. [ErrNoDocument].
func (s *Store) View(name string, r Reader) (View, error) {
	h, winners, _, err := s.view(name, nil)
	if err != nil {
		return View{}, fmt.Errorf("resolving document %s: %w", name, err)
	}
	var uses []Filled
	for _, use := range h.doc.References() {
		u := Filled{Use: use}
		ref, ok := winners[use.Path]
		if !ok {
			u.Err = ErrUnresolved
		} else if _, err := r.Read(ref); err != nil {
			u.Err = fmt.Errorf("%s: %w", ref, err)
			delete(h.values, use.Path)
		} else {
			u.By = &ref
		}
		uses = append(uses, u)
	}
	return View{Resolved{&rendering{h.doc, h.tree()}}, uses}, nil
}
