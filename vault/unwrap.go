package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/leasesvc/leasesvc/secret"
)

// ErrWrapping: the wrapping token does not hold a secret id of the configured
// mount, or does not hold it any more. When it was not this process that
// unwrapped it, somebody else has the secret id.
var ErrWrapping = errors.New("the wrapping token can't be used")

// unwrapped is the secret id that a wrapping token gave.
type unwrapped struct{ wrapping, secretID secret.String }

// unwrapSecretID gives the secret id that is in wrapping, from memory when it is
// the one that was unwrapped last. Called with the login lock held.
func (c *Client) unwrapSecretID(ctx context.Context, role AppRole, wrapping secret.String) (secret.String, error) {
	if c.unwrapped.wrapping.Reveal() == wrapping.Reveal() && !c.unwrapped.secretID.IsZero() {
		return c.unwrapped.secretID, nil
	}
	if err := c.checkWrapping(ctx, role, wrapping); err != nil {
		return secret.String{}, err
	}
	rq := request{op: "unwrap secret id", method: http.MethodPost, path: "sys/wrapping/unwrap", token: wrapping, once: true, vital: true}
	a, err := c.call(ctx, rq)
	if err != nil {
		return secret.String{}, usedUp(err)
	}
	secretID, err := a.wrappedSecretID(wrapping)
	if err != nil {
		return secret.String{}, c.unusable(rq, a, err)
	}
	c.unwrapped = unwrapped{wrapping: wrapping, secretID: secretID}
	return secretID, nil
}

// checkWrapping looks a wrapping token up without using it: one that was made
// elsewhere than by the role's secret-id endpoint was swapped for another.
func (c *Client) checkWrapping(ctx context.Context, role AppRole, wrapping secret.String) error {
	rq := request{op: "look up wrapping token", method: http.MethodPost, path: "sys/wrapping/lookup", open: true, look: true, vital: true,
		body: map[string]any{"token": wrapping.Reveal()}, sent: []secret.String{wrapping}}
	a, err := c.call(ctx, rq)
	if err != nil {
		return usedUp(err)
	}
	e, err := a.parse(wrapping)
	if err != nil {
		return c.unusable(rq, a, err)
	}
	data, err := e.object("data", e.data)
	if err != nil {
		return c.unusable(rq, a, err)
	}
	from, err := readText("creation_path", data["creation_path"])
	if err != nil {
		return c.unusable(rq, a, err)
	}
	name, ok := strings.CutPrefix(strings.TrimPrefix(from, "/"), "auth/"+role.mount()+"/role/")
	if name, ok2 := strings.CutSuffix(name, "/secret-id"); !ok || !ok2 || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%w: it was made by %.128q, not by auth/%s/role/NAME/secret-id; treat it as swapped by somebody", ErrWrapping, redact(from), role.mount())
	}
	return nil
}

func usedUp(err error) error {
	if k := KindOf(err); k == KindRefused || k == KindPermission || k == KindNotFound {
		return fmt.Errorf("%w: it is unknown, expired or was used; a process that starts again needs a new one, and if it was not unwrapped here, somebody else has the secret id: %w", ErrWrapping, err)
	}
	return err
}

func (a answer) wrappedSecretID(known ...secret.String) (secret.String, error) {
	e, err := a.parse(known...)
	if err != nil {
		return secret.String{}, err
	}
	data, err := e.object("data", e.data)
	if err != nil {
		return secret.String{}, err
	}
	text, err := readText("secret_id", data["secret_id"])
	if err == nil && text == "" {
		err = errors.New("what was wrapped holds no secret_id")
	}
	return secret.New(text), err
}
