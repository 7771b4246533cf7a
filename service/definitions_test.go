package service

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service/config"
)

// TestL38_ManyPollsAreWarnedAbout: more than 200 a second, of secrets without
// lease alone.
func TestL38_ManyPollsAreWarnedAbout(t *testing.T) {
	for _, c := range []struct {
		kind  events.Kind
		many  int
		every int64
		warns bool
	}{
		{events.KindKV, 200, 1, false},
		{events.KindKV, 201, 1, true},
		{events.KindKV, 1000, 5, false},
		{events.KindKV, 1001, 5, true},
		{events.KindPostgreSQL, 1000, 1, false},
	} {
		defs := &config.Definitions{Leases: map[string]events.Definition{}}
		for i := range c.many {
			d := events.DefaultDefinition()
			d.Kind, d.Poll = c.kind, events.WholeSeconds(c.every)
			defs.Leases[fmt.Sprint("n", i)] = d
		}
		var said strings.Builder
		warnPolls(slog.New(slog.NewTextHandler(&said, nil)), defs)
		if warned := strings.Contains(said.String(), "too often"); warned != c.warns {
			t.Errorf("%d of kind %s every %d s: warned %t", c.many, c.kind, c.every, warned)
		}
	}
}
