package verify

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/leasesvc/leasesvc/secret"
)

// How a command is handed the credential.
const (
	// PassStdin gives it as one JSON object on the standard input.
	PassStdin = "stdin"
	// PassEnv gives each scalar as CREDENTIAL_<KEY>, the key in capitals and
	// what is neither a letter nor a digit as an underscore.
	PassEnv = "env"
)

const (
	// Exit statuses that mean "not there", of sysexits.h; 1 is "refused".
	exitRefused     = 1
	exitUnavailable = 69
	exitTemporary   = 75

	maxOutput = 200     // bytes of a command's output in an error
	keptTail  = 4 << 10 // bytes of it in memory
)

func checkCommand(spec Spec) error {
	switch {
	case len(spec.Command) == 0:
		return errors.New("the verifier has no command: write [\"/path/to/program\", \"argument\", ...]")
	case !filepath.IsAbs(spec.Command[0]):
		return errors.New("the verifier's command must be an absolute path: what a PATH finds depends on who runs the service")
	case spec.Pass != "" && spec.Pass != PassStdin && spec.Pass != PassEnv:
		return errors.New("the verifier's pass is not known: write stdin or env")
	}
	for _, arg := range spec.Command {
		if placeholder.MatchString(arg) {
			return errors.New("the verifier's command has a {{placeholder}}: everybody on the machine can read a program's arguments," +
				" so the credential comes on standard input, or in the environment with pass: env")
		}
		if strings.ContainsRune(arg, 0) {
			return errors.New("the verifier's command has a NUL byte")
		}
	}
	return nil
}

func prepareCommand(spec Spec, values map[string]any) (attempt, error) {
	// All that the program inherits: a token of ours in the environment is
	// none of its business.
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}
	var input []byte
	revealed := map[string]any{}
	for key, v := range values {
		if s, ok := v.(secret.String); ok {
			v = s.Reveal()
		}
		revealed[key] = v
	}
	if spec.Pass == PassEnv {
		for key := range revealed {
			text, err := scalar(revealed, key)
			if err != nil {
				continue // an object or a list goes into no variable
			}
			env = append(env, "CREDENTIAL_"+variable(key)+"="+text)
		}
	} else {
		var err error
		if input, err = json.Marshal(revealed); err != nil {
			return nil, errors.New("the credential is no JSON object")
		}
	}
	hide := redactor(revealed)
	return func(ctx context.Context) *Error { return runCommand(ctx, spec.Command, env, input, hide) }, nil
}

// variable makes a key part of a variable's name.
func variable(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(key))
}

// runCommand runs the program once, in a process group of its own, which is
// killed when ctx ends.
func runCommand(ctx context.Context, argv, env []string, input []byte, hide func(string) string) *Error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = env, "/", bytes.NewReader(input)
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a child of its own may hold the output open
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &Error{Failure: Unreachable, Reason: "the command did not end in time"}
	case !errors.As(err, &exit):
		var said *os.PathError
		if errors.As(err, &said) {
			err = said.Err
		}
		return &Error{Failure: Unusable, Reason: "the command cannot be run: " + hide(err.Error())}
	}
	code := exit.ExitCode()
	reason := "exit status " + strconv.Itoa(code)
	if code < 0 {
		reason = exit.String()
	}
	if said := out.lastLine(); said != "" {
		reason += ": " + shorten(hide(said))
	}
	switch code {
	case exitRefused:
		return &Error{Failure: AuthRefused, Reason: reason}
	case exitUnavailable, exitTemporary:
		return &Error{Failure: Unreachable, Reason: reason}
	default:
		return &Error{Failure: Refused, Reason: reason}
	}
}

// tail keeps the end of what is written.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if extra := len(t.b) - keptTail; extra > 0 {
		t.b = append(t.b[:0], t.b[extra:]...)
	}
	return len(p), nil
}

// lastLine is the last line with something in it, if all of it was kept.
func (t *tail) lastLine() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?")), "\n")
	if len(t.b) == keptTail && len(lines) == 1 {
		return "" // its beginning is cut off, where a value may have been
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// redactor takes the values out of a text: as they are, and in the forms that
// programs print them in.
func redactor(values map[string]any) func(string) string {
	var forms []string
	add := func(s string) {
		if len(s) > 0 {
			forms = append(forms, s)
		}
	}
	texts := map[string]string{}
	for key := range values {
		if text, err := scalar(values, key); err == nil {
			texts[key] = text
		} else if b, err := json.Marshal(values[key]); err == nil {
			texts[key] = string(b)
		}
	}
	for _, v := range texts {
		add(v)
		add(strings.Trim(strconv.Quote(v), `"`))
		add(url.QueryEscape(v))
		add(url.PathEscape(v))
		add(base64.StdEncoding.EncodeToString([]byte(v)))
		for _, w := range texts { // as Basic authentication has two
			add(base64.StdEncoding.EncodeToString([]byte(v + ":" + w)))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, secret.Redacted)
	}
	return strings.NewReplacer(pairs...).Replace
}

func shorten(s string) string {
	for len(s) > maxOutput {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
