package leasecore

import (
	"maps"
	"reflect"
	"slices"

	"github.com/leasesvc/leasesvc/events"
)

// share has what an event brought into the state held once, where the state has the
// same already: the names of a scope are defined alike for the most part.
func (s *State) share(e *events.Event) {
	switch d := e.Data.(type) {
	case *events.Applied:
		if n := s.names[e.Name]; n != nil && d.Definition != nil {
			def := *d.Definition // the event is others' as well
			n.Definition = &def
			s.shareDefinition(n)
		}
	case *events.Registered:
		if n := s.names[e.Name]; len(n.Consumers) > 0 { // the last one is new, and nobody else's yet
			n.shareConsumers(n.Consumers[len(n.Consumers)-1:])
		}
	}
}

// shareAll shares of every name, for a state that nobody else has yet.
func (s *State) shareAll() {
	for _, n := range s.names {
		if n.Definition == nil {
			continue
		}
		s.shareDefinition(n)
		for i := range n.Leases {
			same(&n.Leases[i].Vault, n.Definition.Vault)
			same(&n.Leases[i].Path, n.Definition.Path)
		}
		n.shareConsumers(n.Consumers)
	}
}

// shareDefinition takes from the definition that came before what is the same.
func (s *State) shareDefinition(n *Name) {
	d, like := n.Definition, s.like
	s.like = d
	if like == nil {
		return
	}
	same(&d.Vault, like.Vault)
	same(&d.Path, like.Path)
	same(&d.Kind, like.Kind)
	same(&d.Method, like.Method)
	if maps.Equal(d.Params, like.Params) {
		d.Params = like.Params
	}
	if slices.Equal(d.Require, like.Require) {
		d.Require = like.Require
	}
	if slices.Equal(d.Consumers, like.Consumers) {
		d.Consumers = like.Consumers
	}
	if d.Verifier != nil && like.Verifier != nil && reflect.DeepEqual(d.Verifier, like.Verifier) {
		d.Verifier = like.Verifier
	}
}

// shareConsumers takes from the definition what incarnations have from there.
func (n *Name) shareConsumers(incarnations []Incarnation) {
	if n.Definition == nil {
		return
	}
	for i := range incarnations {
		in := &incarnations[i]
		for j := range n.Definition.Consumers {
			same(&in.Consumer, n.Definition.Consumers[j].Name)
			same(&in.Key, n.Definition.Consumers[j].Key)
		}
	}
}

// same has a string be another one that is equal.
func same[S ~string](s *S, as S) {
	if *s == as {
		*s = as
	}
}
