package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/consumertest"
	"github.com/leasesvc/leasesvc/consumer/sqllease"
)

func TestRotationUnderLoadFailsNoQuery(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		current := s.account()
		s.holder.Install("db", current)
		l := startLoad(s, s.open(), 8)
		rotations, rolledBack := 0, 0
		for i := range 12 {
			next := s.account()
			broken := i%4 == 3
			if broken {
				s.admins(s.spoil, next.Public)
			}
			_, err := s.holder.Rotate(within(t, 60*time.Second), "db", next, 30*time.Second)
			switch {
			case err == nil && !broken:
				rotations++
				s.revoke(current)
				current = next
			case errors.Is(err, consumertest.ErrRolledBack) && broken:
				rolledBack++
				if strings.Contains(err.Error(), "pw-") || !strings.Contains(err.Error(), "the login is refused") {
					t.Errorf("the reason is %v", err)
				}
				s.revoke(next)
			default:
				t.Fatal(err)
			}
			l.more(50)
		}
		l.end()
		if l.failed.Load() != 0 || len(l.users) != rotations+1 || rotations != 9 || rolledBack != 3 {
			t.Errorf("%d of %d queries failed over %d rotations and %d ways back, %d users seen: %v",
				l.failed.Load(), l.queries.Load(), rotations, rolledBack, len(l.users), l.errs)
		}
		t.Logf("%d queries, %d rotations, %d rolled back, %d failed", l.queries.Load(), rotations, rolledBack, l.failed.Load())
	})
}

func TestL21_RevertGoesBack(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		one, two := s.account(), s.account()
		s.holder.Install("db", one)
		db := s.open()
		l := startLoad(s, db, 4)
		to := s.holder.AwaitRegistered("db", 1)[0].To()
		if got, err := s.holder.Prepare(within(t, 30*time.Second), to, two, 30*time.Second); err != nil || !got.Yes() {
			t.Fatalf("%+v, %v", got, err)
		}
		if db.Lease() != two.Lease {
			t.Errorf("new work is on lease %d after yes", db.Lease())
		}
		l.more(20)
		if got, err := s.holder.Follow(within(t, 30*time.Second), to, s.holder.RollBack("db"), true); err != nil || !got.Confirmed() {
			t.Fatalf("%+v, %v", got, err)
		}
		s.revoke(two)
		l.more(20)
		l.end()
		if l.failed.Load() != 0 || !l.users[two.Public] {
			t.Errorf("%d of %d failed: %v; users %v", l.failed.Load(), l.queries.Load(), l.errs, l.users)
		}
	})
}

func TestATransactionHoldsTheConfirmationUp(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		one, two := s.account(), s.account()
		s.holder.Install("db", one)
		db := s.open()
		ctx := within(t, 60*time.Second)
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() }) // Close waits for it
		to := s.holder.AwaitRegistered("db", 1)[0].To()
		if got, err := s.holder.Prepare(ctx, to, two, 30*time.Second); err != nil || !got.Yes() {
			t.Fatalf("%+v, %v", got, err)
		}
		state := s.holder.Install("db", two)
		if got, err := s.holder.Follow(within(t, 300*time.Millisecond), to, state, false); err == nil {
			t.Fatalf("confirmed %+v with a transaction open on the old user", got)
		}
		var user string
		if err := tx.QueryRowContext(ctx, s.who).Scan(&user); err != nil || user != one.Public {
			t.Errorf("in the transaction: %s, %v", user, err)
		}
		if err := db.QueryRowContext(ctx, s.who).Scan(&user); err != nil || user != two.Public {
			t.Errorf("beside it: %s, %v", user, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got, err := s.holder.Follow(ctx, to, state, false); err != nil || !got.Confirmed() {
			t.Fatalf("%+v, %v", got, err)
		}
		s.revoke(one)
	})
}

func TestC49_YesNeedsALoginAsTheCandidate(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		one, locked, unknown := s.account(), s.account(), s.account()
		s.holder.Install("db", one)
		db := s.open()
		if err := db.PingContext(within(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		to := s.holder.AwaitRegistered("db", 1)[0].To()
		s.admins(s.shut, locked.Public)
		unknown.Values = []byte(`{"username":"nobody","password":"pw-nobody"}`)
		for name, candidate := range map[string]consumertest.State{"locked": locked, "unknown": unknown} {
			got, err := s.holder.Prepare(within(t, 60*time.Second), to, candidate, 30*time.Second)
			if err != nil || got.Yes() || got.Reason == "" {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			if db.Lease() != one.Lease {
				t.Errorf("%s: on lease %d", name, db.Lease())
			}
		}
	})
}

func TestC58_ARefusedLoginIsReported(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		one := s.account()
		s.holder.Install("db", one)
		db := s.open()
		if err := db.PingContext(within(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		s.admins(s.shut, one.Public)
		s.admins(s.end, one.Public)
		refused := 0
		for limit := time.Now().Add(30 * time.Second); len(s.holder.Reports()) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("nothing was reported, though %d logins were refused", refused)
			}
			if _, err := db.ExecContext(within(t, 30*time.Second), "select 1"); err != nil {
				refused++
			}
		}
		for range 20 { // told once
			_, _ = db.ExecContext(within(t, 30*time.Second), "select 1")
		}
		if got := s.holder.Reports(); len(got) != 1 || got[0].Lease != one.Lease || !strings.Contains(got[0].Reason, "the login is refused") || refused == 0 {
			t.Errorf("%d refused logins were reported as %+v", refused, got)
		}
	})
}

func TestCloseEndsItsSessionsBeforeItLeaves(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		one := s.account()
		s.holder.Install("db", one)
		db := s.open()
		if err := db.PingContext(within(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
		s.holder.AwaitRegistered("db", 1)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if len(s.holder.Registered("db")) != 0 {
			t.Error("still registered")
		}
		s.revoke(one)
		if err := db.PingContext(within(t, 30*time.Second)); err == nil {
			t.Error("a closed DB answers")
		}
		<-db.Done()
		if db.Err() != nil {
			t.Error(db.Err())
		}
	})
}

func TestNoneMakesWorkWait(t *testing.T) {
	each(t, func(t *testing.T, s *stage) {
		one := s.account()
		s.holder.Install("db", one)
		db := s.open()
		to := s.holder.AwaitRegistered("db", 1)[0].To()
		none := consumertest.State{N: s.holder.Next()}
		if got, err := s.holder.Follow(within(t, 30*time.Second), to, none, true); err != nil || !got.Confirmed() {
			t.Fatalf("%+v, %v", got, err)
		}
		s.revoke(one)
		short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := db.PingContext(short); !errors.Is(err, sqllease.ErrNone) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		waited := make(chan error, 1)
		go func() { waited <- db.PingContext(within(t, 60*time.Second)) }()
		state := s.holder.Install("db", s.account())
		if got, err := s.holder.Follow(within(t, 30*time.Second), to, state, false); err != nil || !got.Confirmed() {
			t.Fatalf("%+v, %v", got, err)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

func TestRawGivesTheDriversConnection(t *testing.T) {
	s := newStage(t, engines["PostgreSQL"](t))
	s.holder.Install("db", s.account())
	conn, err := s.open().Conn(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		u, ok := c.(sqllease.Unwrapper)
		if !ok {
			return errors.New("it cannot be unwrapped")
		}
		if _, ok := u.Unwrap().(*stdlib.Conn); !ok {
			return errors.New("it is no connection of pgx's")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOpenSaysWhatItWaitedFor(t *testing.T) {
	s := newStage(t, engines["MySQL"](t))
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := sqllease.Open(ctx, s.client, "nope", s.dialect, sqllease.Config{})
	if !errors.Is(err, consumer.ErrUnknownName) || !errors.Is(err, sqllease.ErrNone) {
		t.Error(err)
	}
	if _, err := sqllease.MySQL("u:pw-secret@tcp(db"); err == nil || strings.Contains(err.Error(), "pw-secret") {
		t.Error(err)
	}
	if _, err := sqllease.PostgreSQL("postgres://u:pw-secret@[::1"); err == nil || strings.Contains(err.Error(), "pw-secret") {
		t.Error(err)
	}
}
