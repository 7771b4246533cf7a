package itest

import (
	"os"
	"testing"

	"github.com/leasesvc/leasesvc/itest/secrettest"
)

func TestMain(m *testing.M) {
	code := secrettest.Main(m).Run()
	if built.path != "" {
		_ = os.Remove(built.path)
	}
	os.Exit(code)
}
