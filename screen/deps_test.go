package screen_test

import (
	"testing"

	"github.com/leasesvc/leasesvc/internal/arrows"
)

func TestArrows(t *testing.T) {
	arrows.Check(t, arrows.Allow{
		Internal: []string{"events", "service/api"},
		External: []string{"github.com/charmbracelet/x/ansi"},
		Why:      "the board is a picture of what holders answer; terminals and connections are the command's.",
	})
}
