package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/nats-io/nats.go"
	"golang.org/x/term"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/screen"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/story"
)

type topCmd struct {
	logSource
	output
	Every time.Duration `default:"1s" help:"How often the holders are asked."`
	Once  bool          `help:"Print one screen and end; the way it is with --output json or yaml, and where the output is no terminal."`
}

const (
	// anyWidth is the width of what is no screen.
	anyWidth = 10_000
	// fastestTop keeps a slip of the finger from asking without end.
	fastestTop = 100 * time.Millisecond
	// answersWithin bounds one round of asking.
	answersWithin = 3 * time.Second
)

func (c topCmd) Run(ctx context.Context) error {
	if c.File != "" {
		return usageError{errors.New("top shows what runs; --file has no place here")}
	}
	if c.Every < fastestTop {
		return usageError{fmt.Errorf("--every: %s is too often; at least %s", c.Every, fastestTop)}
	}
	nc, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	t := &top{cmd: c, ctx: ctx, nc: nc, client: api.NewClient(nc), board: &screen.Board{}}
	if c.Output != "table" {
		return c.print(seenOf(t.ask()), nil)
	}
	if c.Once || !isTerminal(os.Stdout) || dumb() {
		t.board.Take(t.ask())
		_, err := fmt.Print(t.board.Print(printWidth(), colours(os.Stdout)))
		return err
	}
	// A signal ends ctx, which is enough: two that end the program would race.
	_, err = tea.NewProgram(t, tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil // ended by a signal
	}
	return err
}

// printWidth is how wide the board can be printed.
func printWidth() int {
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		return width
	}
	return anyWidth
}

// topSeen is what top prints for programs: what each holder said, or why it did not.
type topSeen struct {
	Time   time.Time  `json:"time"`
	Scopes []topScope `json:"scopes"`
}

type topScope struct {
	Scope   string      `json:"scope"`
	Problem string      `json:"problem,omitempty"`
	Status  *api.Status `json:"status,omitempty"`
	Leases  []api.Lease `json:"leases,omitempty"`
}

func seenOf(seen screen.Seen) topSeen {
	out := topSeen{seen.Time.UTC(), []topScope{}}
	for i := range seen.Scopes {
		s := &seen.Scopes[i]
		row := topScope{Scope: s.Name, Problem: s.Problem}
		if s.Problem == "" {
			row.Status, row.Leases = &s.Status, s.Leases.Names
		}
		out.Scopes = append(out.Scopes, row)
	}
	return out
}

// top is the program that draws the board: it asks once in a while, and passes on
// the keys.
type top struct {
	cmd           topCmd
	ctx           context.Context
	nc            *nats.Conn
	client        *api.Client
	board         *screen.Board
	width, height int
}

type (
	seenMsg screen.Seen
	tickMsg struct{}
	toldMsg struct {
		scope, name string
		lines       []string
	}
)

// Init implements tea.Model.
func (t *top) Init() tea.Cmd { return t.look }

func (t *top) look() tea.Msg { return seenMsg(t.ask()) }

// ask asks every holder for its status and its leases.
func (t *top) ask() screen.Seen {
	ctx, cancel := context.WithTimeout(t.ctx, answersWithin)
	defer cancel()
	scopes := []string{t.cmd.Scope}
	if t.cmd.Scope == "" {
		var err error
		if scopes, err = t.client.Scopes(ctx, discoverWithin); err != nil {
			return screen.Seen{Time: time.Now(), Scopes: []screen.Scope{{Name: "?", Problem: notAllowed(t.nc, err).Error()}}}
		}
	}
	seen := screen.Seen{}
	for _, scope := range scopes {
		s := screen.Scope{Name: scope}
		var err error
		if s.Status, err = t.client.Status(ctx, scope); err == nil {
			s.Leases, err = t.client.Leases(ctx, scope)
		}
		if err != nil {
			s.Problem = notAllowed(t.nc, err).Error()
		}
		seen.Scopes = append(seen.Scopes, s)
	}
	seen.Time = time.Now()
	return seen
}

// Update implements tea.Model.
func (t *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.width, t.height = msg.Width, msg.Height
	case seenMsg:
		t.board.Take(screen.Seen(msg))
		return t, tea.Tick(t.cmd.Every, func(time.Time) tea.Msg { return tickMsg{} })
	case tickMsg:
		return t, t.look
	case toldMsg:
		t.board.Tell(msg.scope, msg.name, msg.lines)
	case tea.KeyPressMsg:
		before := t.board.Looked()
		if t.board.Key(msg.String()) {
			return t, tea.Quit
		}
		if r := t.board.Looked(); r != nil && r != before {
			return t, func() tea.Msg { return t.tell(r.Scope, r.Lease.Name) }
		}
	}
	return t, nil
}

// tell reads a name's story from the log.
func (t *top) tell(scope, name string) tea.Msg {
	ctx, cancel := context.WithTimeout(t.ctx, recoverWithin)
	defer cancel()
	source := t.cmd.logSource
	source.Scope = scope
	l, err := source.open(ctx, false)
	if err != nil {
		return toldMsg{scope, name, []string{err.Error()}}
	}
	defer l.close()
	life := story.NewLife(name)
	if _, err := source.fold(ctx, l, func(e *events.Event) bool { life.See(e); return true }); err != nil {
		return toldMsg{scope, name, []string{err.Error()}}
	}
	lines, _ := life.Lines()
	told := toldMsg{scope: scope, name: name}
	for _, line := range lines {
		told.lines = append(told.lines, fmt.Sprintf("  %s  %s", line.Time.UTC().Format("2006-01-02 15:04:05"), line.Says))
	}
	return told
}

// View implements tea.Model.
func (t *top) View() tea.View {
	if t.width == 0 {
		return tea.NewView("")
	}
	v := tea.NewView(t.board.Render(t.width, t.height, colours(os.Stdout)))
	v.AltScreen = true
	return v
}
