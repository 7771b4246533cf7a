package deploy

import (
	"debug/elf"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/itest/proctest"
)

// instruction is one of a Dockerfile's, with its continuation lines.
type instruction struct{ word, rest string }

// stage is one image that a Dockerfile makes.
type stage struct {
	from         string
	instructions []instruction
}

func (s stage) all(word string) []string {
	var all []string
	for _, i := range s.instructions {
		if i.word == word {
			all = append(all, i.rest)
		}
	}
	return all
}

// stages reads the Dockerfile: the stages by name, the last one as "" too.
func stages(t *testing.T) map[string]stage {
	t.Helper()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "ENV", "ENTRYPOINT", "CMD", "USER", "VOLUME", "EXPOSE"}
	all, name := map[string]stage{}, ""
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if !slices.Contains(known, word) {
			t.Fatalf("Dockerfile: %s", line)
		}
		if word == "FROM" {
			var from string
			from, name, _ = strings.Cut(rest, " AS ")
			all[name] = stage{from: from}
			continue
		}
		s := all[name]
		s.instructions = append(s.instructions, instruction{word, strings.TrimSpace(rest)})
		all[name] = s
	}
	all[""] = all[name]
	return all
}

// TestImagesAreFromScratchForAUserWithoutRights: what runs in production, and the
// demo, hold a static program and what TLS needs, and nothing that could be run beside.
func TestImagesAreFromScratchForAUserWithoutRights(t *testing.T) {
	all := stages(t)
	if all[""].from != all["leasesvc"].from || !slices.Equal(all[""].instructions, all["leasesvc"].instructions) {
		t.Error("the last stage, which docker build makes without a target, is not leasesvc")
	}
	for _, name := range []string{"leasesvc", "demo"} {
		s, ok := all[name]
		if !ok || s.from != "scratch" {
			t.Errorf("%s is from %q", name, s.from)
		}
		if users := s.all("USER"); len(users) != 1 || !regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(users[0]) {
			t.Errorf("%s: users %q; a number that is not 0 is one that an orchestrator can check", name, users)
		}
		if len(s.all("RUN")) != 0 {
			t.Errorf("%s runs something, and there is nothing to run it with", name)
		}
		copies := strings.Join(s.all("COPY"), "\n")
		for _, file := range []string{"ca-certificates.crt /etc/ssl/certs/", "/out/etc/ /etc/", "/usr/local/bin/"} {
			if !strings.Contains(copies, file) {
				t.Errorf("%s: nothing copies %s", name, file)
			}
		}
		for _, c := range s.all("COPY") {
			if !strings.HasPrefix(c, "--from=build ") {
				t.Errorf("%s: COPY %s", name, c)
			}
		}
		if entry := s.all("ENTRYPOINT"); len(entry) != 1 || !strings.HasPrefix(entry[0], `["/usr/local/bin/`) {
			t.Errorf("%s: entry point %q; without a shell it is a list", name, entry)
		}
	}
	if copies := strings.Join(all["leasesvc"].all("COPY"), "\n"); !strings.Contains(copies, "--chown=65532:65532 /out/state /var/lib/leasesvc") {
		t.Error("the state directory is not the user's")
	}
	if env := strings.Join(all["build"].all("ENV"), " "); !strings.Contains(env, "CGO_ENABLED=0") {
		t.Errorf("the build's environment is %q", env)
	}
}

// TestWhatTheImagesRunIsStatic: built as the Dockerfile builds it, it needs neither an
// interpreter nor a library, of which an image from scratch has none.
func TestWhatTheImagesRunIsStatic(t *testing.T) {
	t.Setenv("CGO_ENABLED", "0")
	built := strings.Join(stages(t)["build"].all("RUN"), "\n")
	for _, pkg := range []string{"cmd/leasesvc", "deploy/demo"} {
		if !strings.Contains(built, "./"+pkg+"\n") {
			t.Errorf("the Dockerfile does not build %s", pkg)
		}
		f, err := elf.Open(proctest.Build(t, "github.com/leasesvc/leasesvc/"+pkg, "-trimpath"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s has a segment %s", pkg, p.Type)
			}
		}
		libraries, err := f.ImportedLibraries()
		if len(libraries) != 0 || err != nil {
			t.Errorf("%s needs %v (%v)", pkg, libraries, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
