package redisserver

import (
	"errors"
	"strings"
	"testing"
)

func TestMissingRedisSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := binary(); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Fatalf("got %v", err)
	}
}
