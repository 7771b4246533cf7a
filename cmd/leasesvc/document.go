package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v4"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/handover/document"
	"github.com/leasesvc/leasesvc/service/api"
)

type documentCmd struct {
	List documentListCmd `cmd:"" help:"List a scope's settings documents."`
	Show documentShowCmd `cmd:"" help:"Show a document as it is written, without its values, and what fills each place."`
	Get  documentGetCmd  `cmd:"" help:"Read a document with the values in it."`
	Put  documentPutCmd  `cmd:"" help:"Write a document as a whole, from a JSON or YAML file."`
	Set  documentSetCmd  `cmd:"" help:"Change places of a document that are there."`
}

// findScopeOf is findScope on a connection.
func (c *connection) findScopeOf(ctx context.Context, nc *nats.Conn) error {
	return c.findScope(ctx, api.NewClient(nc))
}

type documentListCmd struct {
	connection
	output
}

func (c documentListCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		list, err := client.Documents(ctx, c.Scope)
		if err != nil {
			return err
		}
		if list.Documents == nil {
			list.Documents = []api.DocumentRow{}
		}
		return c.print(list, func(p *page) {
			p.row(bold, "DOCUMENT", "REVISION", "DEFINITIONS")
			for _, d := range list.Documents {
				p.row(plain, d.Name, d.Revision, number(d.Definitions))
			}
		})
	})
}

type documentShowCmd struct {
	connection
	output
	Name string `arg:"" help:"The document."`
}

func (c documentShowCmd) Run(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		d, err := client.ShowDocument(ctx, c.Scope, c.Name)
		if err != nil {
			return whichDocuments(ctx, client, c.Scope, c.Name, err)
		}
		if c.Output != "table" {
			return c.print(d, nil)
		}
		fmt.Printf("document %s, revision %d\n", d.Name, d.Revision)
		if err := printJSON(d.Content); err != nil {
			return err
		}
		return c.print(d, func(p *page) {
			for _, at := range d.Places {
				if at.By == "" {
					p.row(yellow, at.Path, "no value: "+at.Problem)
				} else {
					p.row(plain, at.Path, at.By)
				}
			}
		})
	})
}

// whichDocuments says which documents there are, where a document that is not
// there makes the error.
func whichDocuments(ctx context.Context, client *api.Client, scope, name string, err error) error {
	list, failed := client.Documents(ctx, scope)
	if failed != nil {
		return err
	}
	p := &api.Problem{Code: api.CodeUnknownName, Message: fmt.Sprintf("%s: there is no such document in scope %s", name, scope)}
	for _, d := range list.Documents {
		if d.Name == name {
			return err
		}
		p.Names = append(p.Names, d.Name)
	}
	return p
}

// printJSON prints a document's content, which is JSON whatever the rest is.
func printJSON(v any) error { return output{Output: "json"}.encode(os.Stdout, v) }

type documentGetCmd struct {
	connection
	output
	Name       string   `arg:"" help:"The document."`
	Path       string   `arg:"" optional:"" help:"Only what is at this place."`
	Reveal     bool     `help:"Show values on a terminal, too."`
	ServiceKey []string `env:"LEASESVC_SERVICE_KEY" help:"The service's public key (see: leasesvc status); several while it is being replaced. Without it the key that answers is trusted."`
}

func (c documentGetCmd) Run(ctx context.Context) error {
	if !c.Reveal && isTerminal(os.Stdout) {
		return errors.New("not shown on a terminal; use --reveal, or a pipe, or: leasesvc document show")
	}
	return c.ask(ctx, func(ctx context.Context, nc *nats.Conn, client *api.Client) error {
		return c.reading(ctx, nc, client, c.ServiceKey, func(ctx context.Context, reader *consumer.Client) error {
			d, err := reader.Document(ctx, c.Name)
			if err != nil {
				return whichDocuments(ctx, client, c.Scope, c.Name, err)
			}
			if c.Path == "" {
				return c.values().print(json.RawMessage(d.JSON().Reveal()), nil)
			}
			return c.printPlace(d, c.Path)
		})
	})
}

// printPlace prints what is at a place: a text as it is, unless JSON or YAML is
// asked for, all else as JSON.
func (c documentGetCmd) printPlace(d consumer.Document, at string) error {
	path, err := document.ParsePath(at)
	if err != nil {
		return usageError{err}
	}
	content, err := document.Parse([]byte(d.JSON().Reveal()))
	if err != nil {
		return err
	}
	v, err := content.At(path)
	if err != nil {
		return err
	}
	if text, ok := v.Text(); ok && c.Output == "table" {
		_, err = fmt.Println(text.Reveal())
		return err
	}
	return c.values().print(json.RawMessage(v.Encode()), nil)
}

// updating is what the commands share that change a document.
type updating struct {
	connection
	output
	Name       string `arg:"" help:"The document."`
	Expect     int64  `default:"-1" placeholder:"REVISION" help:"The revision that the change was made from; 0: the document must not be there yet. Left out: the one that is there now."`
	ServiceKey string `required:"" env:"LEASESVC_SERVICE_KEY" help:"The service's public key (see: leasesvc status)."`
}

func (c *updating) update(ctx context.Context, u api.DocumentUpdate) error {
	return c.ask(ctx, func(ctx context.Context, _ *nats.Conn, client *api.Client) error {
		if c.Expect >= 0 {
			u.Expected = uint64(c.Expect)
		} else {
			list, err := client.Documents(ctx, c.Scope)
			if err != nil {
				return err
			}
			for _, d := range list.Documents {
				if d.Name == c.Name {
					u.Expected = d.Revision
				}
			}
		}
		u.Until = time.Now().Add(time.Minute)
		done, err := client.UpdateDocument(ctx, c.Scope, c.Name, c.ServiceKey, u)
		if err = c.sealedTo(ctx, client, c.ServiceKey, err); err != nil {
			return err
		}
		if done.Paths == nil {
			done.Paths = []string{}
		}
		return c.print(done, func(p *page) {
			if len(done.Paths) == 0 {
				p.line(plain, "document %s has revision %d; nothing differs", done.Name, done.Revision)
				return
			}
			p.line(plain, "document %s has revision %d now; what differs: %s", done.Name, done.Revision, strings.Join(done.Paths, ", "))
		})
	})
}

type documentPutCmd struct {
	updating
	File string `arg:"" help:"The file; - for standard input."`
}

func (c documentPutCmd) Run(ctx context.Context) error {
	content, err := readDocument(c.File)
	if err != nil {
		return err
	}
	if _, err := document.New(c.Name, 1, content); err != nil {
		return err
	}
	return c.update(ctx, api.DocumentUpdate{Content: content.Encode()})
}

// readDocument reads a JSON or YAML file. No error repeats what is in it.
func readDocument(file string) (document.Value, error) {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return document.Value{}, fmt.Errorf("reading the document: %w", err)
		}
		defer f.Close()
		in = f
	}
	src, err := io.ReadAll(io.LimitReader(in, document.MaxBytes+1))
	if err != nil {
		return document.Value{}, fmt.Errorf("reading the document: %w", err)
	}
	content, err := document.Parse(src)
	if err == nil || json.Valid(src) || len(src) > document.MaxBytes {
		return content, err
	}
	var tree any
	if yaml.Unmarshal(src, &tree) != nil {
		return document.Value{}, fmt.Errorf("%s is neither JSON nor YAML", file)
	}
	return document.FromAny(tree)
}

type documentSetCmd struct {
	updating
	Assign []string `arg:"" name:"PATH=VALUE" help:"A place and its value: JSON, or a text where it is none. PATH=- reads the value from standard input."`
}

func (c documentSetCmd) Run(ctx context.Context) error {
	var u api.DocumentUpdate
	for _, a := range c.Assign {
		path, value, ok := strings.Cut(a, "=")
		if !ok {
			return usageError{fmt.Errorf("%q: a change is written PATH=VALUE", path)}
		}
		if _, err := document.ParsePath(path); err != nil {
			return usageError{err}
		}
		if value == "-" {
			src, err := io.ReadAll(io.LimitReader(os.Stdin, document.MaxBytes))
			if err != nil {
				return fmt.Errorf("reading the value: %w", err)
			}
			value = strings.TrimSuffix(string(src), "\n")
		}
		if !json.Valid([]byte(value)) {
			text, err := json.Marshal(value)
			if err != nil {
				return errors.New("the value is no text")
			}
			value = string(text)
		}
		u.Assign = append(u.Assign, api.DocumentAssignment{Path: path, Value: json.RawMessage(value)})
	}
	return c.update(ctx, u)
}
