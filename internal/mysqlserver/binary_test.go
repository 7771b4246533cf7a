package mysqlserver

import (
	"errors"
	"strings"
	"testing"
)

func TestMissingMariaDBSaysWhatToInstall(t *testing.T) {
	before := places
	places = nil
	t.Cleanup(func() { places = before })
	t.Setenv("PATH", t.TempDir())
	if _, err := find(); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install mariadb-server") {
		t.Fatalf("got %v", err)
	}
}
