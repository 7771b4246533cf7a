package main

import (
	"bytes"
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/leasesvc/leasesvc/tracing"
	"github.com/leasesvc/leasesvc/tracing/otlp/otlptest"
)

// The program sends what it traces where the environment says, by both protocols:
// a whole hand-over in one trace, without a secret, a user name or a text that is
// none of ours in it.
func TestTracing_TheProgram(t *testing.T) {
	for protocol, called := range map[string]string{"http": "http/protobuf", "grpc": "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := (&otlptest.Collector{}).Start(t, protocol)
			var out bytes.Buffer
			cmd := exec.Command("leasesvc", "dev", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--for", "2m")
			cmd.Stdout, cmd.Stderr = &out, &out
			cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH"), "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL(), "OTEL_EXPORTER_OTLP_PROTOCOL="+called,
				"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20hunter2,", "OTEL_SERVICE_NAME=try")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var whole otlptest.Span
			for deadline := time.Now().Add(60 * time.Second); whole.Span == nil && time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
				whole = wholeHandOver(c.Spans())
			}
			_ = cmd.Process.Signal(syscall.SIGINT)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v", err)
			}
			if whole.Span == nil {
				t.Fatalf("no whole hand-over among %d spans\n%s", len(c.Spans()), &out)
			}
			if c.Header("Authorization") != "Bearer hunter2" || c.About("service.name") != "try" || strings.Contains(out.String(), "hunter2") {
				t.Errorf("%q, %q", c.Header("Authorization"), c.About("service.name"))
			}
			users := regexp.MustCompile(`v-[A-Za-z0-9-]{6,}`).FindAllString(out.String(), -1)
			if len(users) == 0 {
				t.Fatalf("no user name was printed, so none is looked for:\n%s", &out)
			}
			for _, text := range append(users, "hunter2", "database/creds", "demo-key", "password") {
				if strings.Contains(c.Received(), text) {
					t.Errorf("%q was sent", text)
				}
			}
			for _, s := range c.Spans() {
				for _, a := range s.Attributes {
					if !slices.ContainsFunc(tracing.Keys(), func(k attribute.Key) bool { return string(k) == a.Key }) {
						t.Errorf("%s has the attribute %s", s.Name, a.Key)
					}
				}
				if s.Status.GetMessage() != "" || len(s.Events) > 0 {
					t.Errorf("%s says %q", s.Name, s.Status.GetMessage())
				}
			}
		})
	}
}

// wholeHandOver gives the root of a trace that has all that belongs to a commit.
func wholeHandOver(all []otlptest.Span) otlptest.Span {
	of := map[string]map[string]string{} // by trace: each span's name and the one above
	ids := map[string]string{}
	for _, s := range all {
		ids[hex.EncodeToString(s.SpanId)] = s.Name
	}
	for _, s := range all {
		id := hex.EncodeToString(s.TraceId)
		if of[id] == nil {
			of[id] = map[string]string{}
		}
		of[id][ids[hex.EncodeToString(s.ParentSpanId)]+"/"+s.Name] = s.Name
	}
	for _, s := range all {
		if s.Name != "handover" || s.Attribute(string(tracing.OutcomeKey)) != string(tracing.Committed) {
			continue
		}
		is := true
		for _, want := range []string{
			"handover/acquire", "acquire/guard", "acquire/read", "acquire/seal", "handover/extend", "handover/prepare", "prepare/prepare", "handover/commit", "handover/follow", "follow/follow",
		} {
			is = is && of[hex.EncodeToString(s.TraceId)][want] != ""
		}
		if is {
			return s
		}
	}
	return otlptest.Span{}
}
