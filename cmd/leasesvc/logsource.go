package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/projector"
	"github.com/leasesvc/leasesvc/secret"
)

// logSource is where a command reads the log: the stream, or an export of it.
type logSource struct {
	connection
	File    string   `placeholder:"FILE" help:"Read this export of the log (leasesvc events --output json) instead of NATS; - is standard input."`
	SealKey []string `name:"seal-key" env:"LEASESVC_SEAL_KEY_FILE" placeholder:"FILE" help:"The scope's seal key, to check the MACs; several where it was changed. Without it the MACs are not checked."`
}

// openLog is a log being read.
type openLog struct {
	file    []journal.Message
	nc      *nats.Conn
	journal *journal.Log
	js      jetstream.JetStream
	stream  string
}

// errNoScope tells that there is nothing to read.
var errNoScope = errors.New("the log is empty: no scope was ever led")

// open opens the log, and finds the scope where none was named and one is
// needed.
func (s *logSource) open(ctx context.Context, needScope bool) (*openLog, error) {
	l, named := &openLog{}, s.Scope
	if s.File != "" {
		var err error
		if l.file, err = readExport(s.File); err != nil {
			return nil, err
		}
	} else if err := s.openStream(ctx, l); err != nil {
		return nil, err
	}
	if needScope && s.Scope == "" || named != "" {
		scopes, err := l.scopes(ctx)
		switch {
		case err != nil || named == "":
		case len(scopes) == 0:
			err = errNoScope
		case !slices.Contains(scopes, named):
			err = fmt.Errorf("the log has no scope %s; its scopes are: %s", named, strings.Join(scopes, ", "))
		default:
			return l, nil
		}
		if err == nil {
			switch len(scopes) {
			case 0:
				err = errNoScope
			case 1:
				s.Scope = scopes[0]
			default:
				err = fmt.Errorf("the log has several scopes: %s; choose one with --scope", strings.Join(scopes, ", "))
			}
		}
		if err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (s *logSource) openStream(ctx context.Context, l *openLog) error {
	nc, err := s.connect(ctx)
	if err != nil {
		return err
	}
	l.nc, l.stream = nc, s.Stream
	if l.js, err = jetstream.New(nc); err == nil {
		l.journal, err = journal.Open(ctx, l.js, journal.Config{Stream: s.Stream, ReadOnly: true})
	}
	if err != nil {
		err = notAllowed(nc, fmt.Errorf("opening the log: %w", err))
		nc.Close()
		return err
	}
	return nil
}

func (l *openLog) close() {
	if l.journal != nil {
		l.journal.Close()
	}
	if l.nc != nil {
		l.nc.Close()
	}
}

// scopes lists the scopes that the log has, sorted.
func (l *openLog) scopes(ctx context.Context) ([]string, error) {
	found := map[string]bool{}
	note := func(subject string) {
		if scope, name, _, err := events.ParseSubject(subject); err == nil && (name == events.EpochName || l.journal == nil) {
			found[scope] = true
		}
	}
	for _, m := range l.file {
		note(m.Subject)
	}
	if l.journal != nil {
		stream, err := l.js.Stream(ctx, l.stream)
		if err != nil {
			return nil, fmt.Errorf("looking which scopes the log has: %w", err)
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(events.OpenedSubject("*")))
		if err != nil {
			return nil, fmt.Errorf("looking which scopes the log has: %w", err)
		}
		for subject := range info.State.Subjects {
			note(subject)
		}
	}
	out := make([]string, 0, len(found))
	for scope := range found {
		out = append(out, scope)
	}
	slices.Sort(out)
	return out, nil
}

// last gives the last sequence there is.
func (l *openLog) last(ctx context.Context) (uint64, error) {
	if l.journal == nil {
		if len(l.file) == 0 {
			return 0, nil
		}
		return l.file[len(l.file)-1].Seq, nil
	}
	st, err := l.journal.Info(ctx)
	return st.LastSeq, err
}

// read gives each message of a scope (empty: of all) from a sequence on.
func (l *openLog) read(ctx context.Context, scope string, from uint64, fn func(journal.Message) error) error {
	if l.journal == nil {
		for _, m := range l.file {
			if m.Seq < from || scope != "" && !strings.HasPrefix(m.Subject, events.SubjectRoot+"."+scope+".") {
				continue
			}
			if err := fn(m); err != nil {
				return err
			}
		}
		return nil
	}
	to, err := l.last(ctx)
	if err != nil {
		return err
	}
	return notAllowed(l.nc, l.journal.Replay(ctx, scope, from, to, fn))
}

// fold folds a scope's log as far as go on says, and gives each event that
// counts to see.
func (s *logSource) fold(ctx context.Context, l *openLog, see func(*events.Event) (goOn bool)) (*projector.Projection, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, err
	}
	p := projector.New(s.Scope, nil)
	if len(keys) > 0 {
		ring := events.NewKeyring()
		for id, key := range keys {
			ring.Add(id, key)
		}
		p = projector.NewUnder(s.Scope, ring)
	}
	err = l.read(ctx, s.Scope, 1, func(m journal.Message) error {
		if e, err := events.Decode(m.Payload, m.Seq); err == nil && (!signed(m.Payload) || !see(&e)) {
			if !signed(m.Payload) {
				return nil // published by hand
			}
			return errEnough
		}
		_, err := p.Apply(m.Seq, m.Payload)
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return p, err
}

var errEnough = errors.New("that is far enough")

// signed tells whether an event carries a MAC at all.
func signed(payload []byte) bool {
	i := bytes.LastIndex(payload, []byte(`,"mac":"`))
	return i >= 0 && len(payload)-i < 64
}

// keys reads the seal keys and gives the MAC keys by the id of each.
func (s *logSource) keys() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, file := range s.SealKey {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the seal key: %w", err)
		}
		k, err := handover.NewKeys(secret.New(strings.TrimSpace(string(b))))
		if err != nil {
			return nil, fmt.Errorf("reading the seal key %s: %w", file, err)
		}
		out[k.ID()] = k.MACKey()
	}
	return out, nil
}

// maxExportLine bounds a line of an export, in bytes.
const maxExportLine = events.MaxEncoded + 4096

// readExport reads what `leasesvc events --output json` wrote: each line is an
// event as it is stored, with its sequence in front.
func readExport(file string) ([]journal.Message, error) {
	var r io.Reader = os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading the export of the log: %w", err)
		}
		defer f.Close()
		r = f
	}
	var out []journal.Message
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxExportLine)
	for n := 1; lines.Scan(); n++ {
		m, err := exported(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("reading the export of the log, %s line %d: %w", file, n, err)
		}
		out = append(out, m)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the export of the log %s: %w", file, err)
	}
	return out, nil
}

// exportLine gives a message as a line of an export: an event as it is stored,
// with its sequence in front; what is no JSON object is wrapped.
func exportLine(m journal.Message) []byte {
	if !json.Valid(m.Payload) || !bytes.HasPrefix(m.Payload, []byte("{")) || bytes.ContainsAny(m.Payload, "\r\n") || len(m.Payload) < 3 {
		line, err := json.Marshal(foreign{Seq: m.Seq, Subject: m.Subject, Foreign: m.Payload})
		if err != nil {
			return nil
		}
		return append(line, '\n')
	}
	var line []byte
	line = fmt.Appendf(line, `{"seq":%d,`, m.Seq)
	return append(append(line, m.Payload[1:]...), '\n')
}

// foreign is a message of the stream that is no event.
type foreign struct {
	Seq     uint64 `json:"seq"`
	Subject string `json:"subject"`
	Foreign []byte `json:"foreign"`
}

func exported(line []byte) (journal.Message, error) {
	var head struct {
		foreign
		Type  events.Type `json:"type"`
		Scope string      `json:"scope"`
		Name  string      `json:"name"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return journal.Message{}, err
	}
	m := journal.Message{Seq: head.Seq, Subject: head.Subject, Payload: head.Foreign}
	if head.Subject == "" {
		prefix := fmt.Appendf(nil, `{"seq":%d,`, head.Seq)
		if !bytes.HasPrefix(line, prefix) {
			return m, errors.New("it does not begin with its sequence")
		}
		m.Subject = events.Subject(head.Scope, head.Name, head.Type)
		m.Payload = append([]byte("{"), line[len(prefix):]...)
	}
	return m, nil
}
