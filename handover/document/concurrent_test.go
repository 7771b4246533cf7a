package document

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestReadersNeverSeeHalfAChange has readers look while installs are committed
// and restored and updates and pushes come in between: user and password always
// belong together, and no candidate that was restored is seen.
func TestReadersNeverSeeHalfAChange(t *testing.T) {
	s := NewStore(NewGate(5 * time.Millisecond))
	pair := func(i int) Values {
		v, err := ParseValues(fmt.Appendf(nil, `{"user":"s3cr3t-%d","pw":"s3cr3t-%d"}`, i, i))
		if err != nil {
			t.Error(err)
		}
		return v
	}
	vault := vaultOf{"db": {Values: pair(0)}}
	put(t, s, vault, "app", `{"user":"lease://db#user","pw":"lease://db#pw","n":0}`)
	const rounds = 300
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := s.Resolve("app", vault)
				if err != nil {
					t.Error(err)
					return
				}
				tree := r.Reveal().(map[string]any)
				if tree["user"] != tree["pw"] || tree["user"].(string)[len(hidden)] == '9' {
					t.Error("a reader sees half of an install, or one that was restored")
				}
				_, _ = s.Places("db"), s.Names()
			}
		})
	}
	writers.Go(func() {
		for i := range rounds {
			restored := i%2 == 0
			n := 1000 + i
			if restored {
				n = 9000 + i
			}
			in, err := s.Install(context.Background(), "db", pair(n))
			if err != nil {
				t.Error(err)
				return
			}
			_ = in.Changes()
			if !restored {
				err = in.Commit(context.Background())
			}
			if err := errors.Join(err, in.End(context.Background())); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for i := range rounds {
			doc, err := s.Document("app")
			if err != nil {
				t.Error(err)
				return
			}
			n, _ := FromAny(i)
			_, err = s.Update(context.Background(), Update{Document: "app", Expected: doc.Revision(), Assign: []Assignment{{Path{}.Key("n"), n}}}, vault, nil)
			if err != nil && !errors.Is(err, ErrBusy) {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for range rounds {
			if _, err := s.Push(context.Background(), "db", vault); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(stop)
	readers.Wait()
}
