package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// Format is how content is written.
type Format string

// The formats.
const (
	JSON     Format = "json"
	YAML     Format = "yaml"
	Env      Format = "env"
	Template Format = "template"
)

// ErrRender is wrapped when content can't be written in a format.
var ErrRender = errors.New("the content can't be rendered")

// Spec says how a target is rendered.
type Spec struct {
	Format Format
	// Name is the template's, for errors; Text is the template itself.
	Name, Text string
	// Prefix begins the names of variables (Env).
	Prefix string
}

// Renderer writes content in one format.
type Renderer struct {
	spec Spec
	tmpl *template.Template
}

// New makes a renderer; a template that can't be parsed is an error with its line.
func New(spec Spec) (*Renderer, error) {
	r := &Renderer{spec: spec}
	switch spec.Format {
	case JSON, YAML, Env:
	case Template:
		var err error
		r.tmpl, err = template.New(spec.Name).Option("missingkey=error").Funcs(Functions()).Parse(spec.Text)
		if err != nil {
			return nil, fmt.Errorf("parsing the template: %w", err)
		}
	default:
		return nil, fmt.Errorf("there is no format %q", spec.Format)
	}
	return r, nil
}

// Functions are what templates can call: sprig's repeatable ones, and toYaml.
func Functions() template.FuncMap {
	f := sprig.HermeticTxtFuncMap()
	// They make another key each time.
	for _, name := range []string{"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "bcrypt", "htpasswd", "encryptAES", "uuidv4", "randBytes", "randInt"} {
		delete(f, name)
	}
	f["toYaml"] = func(v any) (string, error) {
		b, err := encodeYAML(v)
		return strings.TrimSuffix(string(b), "\n"), err
	}
	return f
}

// MaxBytes bounds what is rendered.
const MaxBytes = 16 << 20

// Parse reads JSON as [Renderer.Render] takes it, numbers as they are written.
func Parse(content []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, errors.New("the content is no JSON") // the error could quote it
	}
	return out, nil
}

// Render writes content: nil, bool, string, [json.Number], []any, map[string]any.
// Its errors wrap [ErrRender] and hold no value.
func (r *Renderer) Render(content any) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // a function of the template's
			err = fmt.Errorf("%w: a function of the template panicked", ErrRender)
		}
	}()
	switch r.spec.Format {
	case YAML:
		out, err = encodeYAML(content)
	case Env:
		out, err = encodeEnv(content, r.spec.Prefix)
	case Template:
		var b limited
		err = r.tmpl.Execute(&b, content)
		out = b.Bytes()
	default:
		out, err = encodeJSON(content)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrRender, Secrets(content).Redact(err.Error()))
	}
	return out, nil
}

func encodeJSON(content any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(content)
	return b.Bytes(), err
}

// limited refuses more than [MaxBytes].
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > MaxBytes {
		return 0, fmt.Errorf("it becomes larger than %d MiB", MaxBytes>>20)
	}
	return l.Buffer.Write(p)
}

var _ io.Writer = (*limited)(nil)
