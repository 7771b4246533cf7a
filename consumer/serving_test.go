package consumer

import (
	"testing"
	"time"
)

// TestWhatEndsMeanwhileDoesNotPutOffTheReturn: a connection that came back has
// us register at once, also where a call of the handler ends before that is done.
func TestWhatEndsMeanwhileDoesNotPutOffTheReturn(t *testing.T) {
	s := &serving{c: &Client{opts: Options{RegisterEvery: time.Hour}}}
	s.reconnected()
	s.settle()
	if wait := time.Until(s.askAt); wait > 0 {
		t.Errorf("the next registration is due in %s", wait)
	}
	s.heard = s.lost
	s.settle()
	if wait := time.Until(s.askAt); wait < time.Minute {
		t.Errorf("registered, and the next registration is due in %s", wait)
	}
}
