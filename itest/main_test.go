package itest

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.path != "" {
		_ = os.Remove(built.path)
	}
	os.Exit(code)
}
