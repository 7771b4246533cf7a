package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/service/config"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// parseAs reads a file as what its name says it is.
func parseAs(file string, src []byte) error {
	if strings.HasPrefix(filepath.Base(file), "service-") {
		_, err := config.Parse(filepath.Base(file), src)
		return err
	}
	_, err := config.ParseDefinitions(filepath.Base(file), src, []string{"main"})
	return err
}

func TestBadInput(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			err = parseAs(file, src)
			if err == nil {
				t.Fatal("the file was accepted")
			}
			checkErrors(t, err, src)
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, errRead := os.ReadFile(golden)
			if errRead != nil {
				t.Fatal(errRead)
			}
			if got := err.Error() + "\n"; got != string(want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

// checkErrors holds for every refusal of a file's content.
func checkErrors(t *testing.T, err error, src []byte) {
	t.Helper()
	var all *config.Errors
	if !errors.As(err, &all) || len(all.List) == 0 {
		t.Fatalf("%v is no list of errors", err)
	}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(src)), "\n")
	for _, e := range all.List {
		if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len([]rune(lines[min(e.Line, len(lines))-1]))+4 {
			t.Errorf("no position in the file: %+v", e)
		}
		if e.Message == "" || strings.ContainsAny(e.Message, "\n\r\x00") {
			t.Errorf("no message on one line: %+v", e)
		}
	}
	if strings.Contains(string(src), "S3cret") && strings.Contains(err.Error(), "S3cret") {
		t.Errorf("a secret shows: %v", err)
	}
}
