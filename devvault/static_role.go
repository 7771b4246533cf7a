package devvault

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// minRotation is the shortest rotation period, as OpenBao's.
const minRotation = 5 * time.Second

// staticRole is what database/static-roles/:name keeps: one account that
// exists, whose password the engine changes.
type staticRole struct {
	rotating sync.Mutex // one rotation at a time; taken before Server.mu

	// What follows is guarded by Server.mu.
	dbName, user string
	statements   []string
	period       time.Duration
	password     secret.String
	rotated      time.Time
	due          time.Time // when the expiry goroutine rotates it
	inFlight     bool
}

// rotationRetry is when a rotation that failed is tried again.
const rotationRetry = 10 * time.Second

func (d *database) staticRoleAPI(req *request, name string) (*response, error) {
	s := d.server
	if req.op.write() && name != "" {
		return d.writeStaticRole(req, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.op {
	case opList:
		return keysOf(slices.Collect(maps.Keys(d.static))), nil
	case opRead:
		r := d.static[name]
		if r == nil {
			return nil, nil
		}
		return &response{data: map[string]any{
			"db_name": r.dbName, "rotation_statements": orEmpty(r.statements), "credential_type": "password", "username": r.user,
			"rotation_period": r.period.Seconds(), "last_vault_rotation": r.rotated,
		}}, nil
	case opDelete:
		delete(d.static, name)
		return nil, nil
	default:
		return nil, unsupportedOperation()
	}
}

func (d *database) writeStaticRole(req *request, name string) (*response, error) {
	s := d.server
	f := req.fields()
	s.mu.Lock()
	if d.roles[name] != nil {
		s.mu.Unlock()
		return nil, badRequest("Role and Static Role names must be unique")
	}
	before := d.static[name]
	next := &staticRole{}
	if before != nil {
		next = before
	}
	user := f.text("username")
	period := f.seconds("rotation_period")
	dbName := f.text("db_name")
	if dbName == "" {
		dbName = next.dbName
	}
	var err error
	switch {
	case f.err != nil:
		err = f.err
	case dbName == "":
		err = badRequest("database name is a required field")
	case before == nil && user == "":
		err = badRequest("username is a required field to create a static account")
	case before != nil && user != before.user:
		err = badRequest("cannot update static account username")
	case before == nil && !req.has("rotation_period"):
		err = badRequest("rotation_period is required to create static accounts")
	case req.has("rotation_period") && period < minRotation:
		err = badRequest(fmt.Sprintf("rotation_period must be %d seconds or more", int(minRotation.Seconds())))
	}
	if err == nil {
		next.dbName, next.user = dbName, user
		if req.has("rotation_period") {
			next.period = period
			next.due = next.rotated.Add(period)
			if before != nil {
				s.noteDue(next.due)
			}
		}
		if req.has("rotation_statements") {
			next.statements = f.list("rotation_statements", false)
		}
	}
	s.mu.Unlock()
	if err == nil && before == nil {
		s.mu.Lock()
		_, err = d.allowed(dbName, name)
		s.mu.Unlock()
	}
	if err != nil || before != nil {
		return nil, err
	}
	if err := d.rotate(req.ctx, next); err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.static[name] = next
	return nil, nil
}

// rotate gives the account a new password.
func (d *database) rotate(ctx context.Context, r *staticRole) error {
	s := d.server
	r.rotating.Lock()
	defer r.rotating.Unlock()
	s.mu.Lock()
	accounts, user, statements := d.accounts(r.dbName), r.user, r.statements
	s.mu.Unlock()
	setter, ok := accounts.(PasswordSetter)
	if !ok {
		return fmt.Errorf("the accounts behind %q cannot change a password", r.dbName)
	}
	password := secret.New(randomPassword())
	if err := setter.SetPassword(ctx, user, password, statements); err != nil {
		return fmt.Errorf("setting the password of static account %q: %w", user, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.password, r.rotated = password, s.now()
	r.due = r.rotated.Add(r.period)
	s.counters.Rotations++
	s.noteDue(r.due)
	return nil
}

// rotateDue is one rotation by the expiry goroutine.
func (d *database) rotateDue(ctx context.Context, r *staticRole) {
	s := d.server
	defer s.running.Done()
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	err := d.rotate(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.inFlight = false
	if err != nil {
		r.due = s.now().Add(rotationRetry)
		s.noteDue(r.due)
		s.log.Warn("static account not rotated, will be tried again", "user", r.user, "next_attempt", r.due, "error", err)
	}
	s.jobDone()
}

// startRotations starts those that are due at now. The caller holds s.mu.
func (d *database) startRotations(ctx context.Context, now time.Time) {
	s := d.server
	for _, r := range d.static {
		switch {
		case r.inFlight:
		case r.due.After(now):
			s.noteDue(r.due)
		case s.jobs < maxDrops:
			s.jobs++
			r.inFlight = true
			s.running.Add(1)
			go d.rotateDue(ctx, r)
		default:
			s.waiting = true
		}
	}
}

func (d *database) rotateNow(ctx context.Context, name string) (*response, error) {
	d.server.mu.Lock()
	r := d.static[name]
	d.server.mu.Unlock()
	if r == nil {
		return nil, badRequest("no static role found for role name")
	}
	if err := d.rotate(ctx, r); err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}
	return nil, nil
}

func (d *database) staticCreds(name string) (*response, error) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	r := d.static[name]
	if r == nil {
		return nil, badRequest("unknown role: " + name)
	}
	if _, err := d.allowed(r.dbName, name); err != nil {
		return nil, err
	}
	left := max(r.rotated.Add(r.period).Sub(s.now()).Round(time.Second), 0)
	return &response{data: map[string]any{
		"username": r.user, "password": r.password.Reveal(), "ttl": left.Seconds(), "rotation_period": r.period.Seconds(),
		"last_vault_rotation": r.rotated,
	}}, nil
}
