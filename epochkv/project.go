package epochkv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// claimCell names the project a bucket belongs to.
type claimCell struct {
	Project string    `json:"project"`
	At      time.Time `json:"at"`
}

// VerifyClaim checks that the bucket is claimed for project or for nobody
// (E15), once before the first claim step. No project: nothing is read.
// *Refused is final. A claim that can't be read or names nobody is an error,
// not permission.
func (c *Cells) VerifyClaim(ctx context.Context, project string) error {
	if project == "" {
		return nil
	}
	e, err := c.get(ctx, claimKey)
	if errors.Is(err, errNotFound) || (err == nil && e.data == nil) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("verifying the claim of project %s: %w", project, err)
	}
	cell := c.cfg.Bucket + "/" + claimKey
	var claim claimCell
	if err := json.Unmarshal(e.data, &claim); err != nil {
		return fmt.Errorf("verifying the claim of project %s: cell %s is not readable: %w: repair or delete it", project, cell, err)
	}
	switch claim.Project {
	case project:
		return nil
	case "":
		return fmt.Errorf("verifying the claim of project %s: cell %s names no project: repair or delete it", project, cell)
	}
	return &Refused{Cell: cell, Owner: claim.Project, Project: project}
}

// ClaimProject claims the bucket for project if nobody has; *Refused if
// another project has. It is for an operator's setup, once.
func (c *Cells) ClaimProject(ctx context.Context, project string) error {
	if project == "" {
		return errors.New("claiming the bucket: no project named")
	}
	e, err := c.get(ctx, claimKey)
	if err != nil && !errors.Is(err, errNotFound) {
		return fmt.Errorf("claiming the bucket for project %s: %w", project, err)
	}
	if e.data == nil {
		_, err = c.put(ctx, claimKey, e.revision, claimCell{Project: project, At: c.cfg.now().UTC()})
		if err != nil && !errors.Is(err, errRefused) {
			return fmt.Errorf("claiming the bucket for project %s: %w", project, err)
		}
	}
	return c.VerifyClaim(ctx, project)
}
