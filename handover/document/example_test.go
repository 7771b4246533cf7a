package document_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasesvc/leasesvc/handover/document"
)

func Example() {
	ctx := context.Background()
	active, _ := document.ParseValues([]byte(`{"username":"v-1","password":"one"}`))
	reader := document.Sources{Lease: func(name string) (document.Held, bool) {
		return document.Held{Values: active}, name == "orders-db"
	}}
	store := document.NewStore(document.NewGate(10 * time.Second))

	content, err := document.Parse([]byte(`{"db": {"user": "lease://orders-db#username", "password": "lease://orders-db#password"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	publish := func(_ context.Context, c document.Change) error {
		fmt.Println(c.Document, "changes", c.Paths)
		return nil
	}
	if _, err := store.Update(ctx, document.Update{Document: "orders", Content: &content}, reader, publish); err != nil {
		fmt.Println(err)
		return
	}

	candidate, _ := document.ParseValues([]byte(`{"username":"v-2","password":"two"}`))
	in, err := store.Install(ctx, "orders-db", candidate)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range in.Changes() {
		fmt.Println("the candidate changes", c.Paths)
	}
	seen, _ := store.Resolve("orders", reader)
	fmt.Printf("readers see %s, and %v is printed\n", seen.Encode(), seen.Value())
	_ = in.End(ctx) // not committed: restored

	// Output:
	// document orders, revision 1, 2 references changes [$]
	// the candidate changes [db.password db.user]
	// readers see {"db":{"password":"one","user":"v-1"}}, and [redacted] is printed
}
