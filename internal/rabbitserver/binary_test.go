package rabbitserver

import (
	"errors"
	"strings"
	"testing"
)

func TestMissingRabbitMQSaysWhatToInstall(t *testing.T) {
	if _, err := find([]string{t.TempDir()}); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install rabbitmq-server") {
		t.Fatalf("got %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := find(places); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "epmd") {
		t.Fatalf("without Erlang: %v", err)
	}
}
