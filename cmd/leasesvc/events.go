package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/service/api"
)

type eventsCmd struct {
	connection
	Follow bool   `short:"f" help:"Go on with what is appended."`
	Lease  string `placeholder:"NAME" help:"Only the events of this name."`
	JSON   bool   `help:"Print the events as they are in the log, one a line, with their sequence."`
	From   uint64 `default:"1" help:"Begin at this sequence."`
}

func (c eventsCmd) Run(ctx context.Context) error {
	nc, err := c.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	client := api.NewClient(nc)
	if c.Lease != "" {
		if err := c.findScope(ctx, client); err != nil {
			return err
		}
		if err := c.knownName(ctx, client); err != nil {
			return err
		}
	}
	log, err := journal.Open(ctx, js, journal.Config{Stream: c.Stream})
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	show := func(m journal.Message) error { return c.show(os.Stdout, m.Seq, m.Payload) }
	if c.Follow {
		err = log.Follow(ctx, c.Scope, c.From, show)
	} else {
		var st journal.State
		if st, err = log.Info(ctx); err == nil {
			err = log.Replay(ctx, c.Scope, c.From, st.LastSeq, show)
		}
	}
	if errors.Is(err, context.Canceled) {
		return nil // ended by a signal
	}
	return err
}

// knownName refuses a name that is not there now, where the holder can be
// asked; the log may still tell of one that was.
func (c *eventsCmd) knownName(ctx context.Context, client *api.Client) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	table, err := client.Leases(ctx, c.Scope)
	if err != nil {
		return nil
	}
	for _, l := range table.Names {
		if l.Name == c.Lease {
			return nil
		}
	}
	return unknownName(ctx, client, c.Scope, c.Lease)
}

func (c *eventsCmd) show(w io.Writer, seq uint64, payload []byte) error {
	e, err := events.Decode(payload, seq)
	switch {
	case err != nil && c.Lease == "":
		_, err = fmt.Fprintf(w, "%d  ?  %v\n", seq, err)
		return err
	case err != nil, c.Lease != "" && e.Name != c.Lease:
		return nil
	case c.JSON:
		line := append([]byte(`{"seq":`+strconv.FormatUint(seq, 10)+","), bytes.TrimPrefix(payload, []byte("{"))...)
		_, err = w.Write(append(line, '\n'))
		return err
	}
	_, err = fmt.Fprintln(w, eventLine(&e))
	return err
}

// eventLine is an event as one readable line.
func eventLine(e *events.Event) string {
	return fmt.Sprintf("%s  %5d  %-14s  %-16s  %s", e.Time.Local().Format("15:04:05.000"), e.Seq, e.Scope+"/"+e.Name, e.Type(), events.Sentence(e))
}
