package epochkv

import (
	"context"
	"errors"
	"fmt"
)

// View is a scope as its cells show it.
type View struct {
	Scope    string
	Cell     *ScopeCell // nil: never claimed
	Revision uint64     // of the scope cell; its epoch unless it is released
	Holder   *HolderCell
	Token    uint64 // revision of the holder cell
}

// Epoch is the epoch a holder has now, 0 when the scope is nobody's.
func (v View) Epoch() uint64 {
	if v.Cell == nil || v.Cell.Released || v.Holder == nil ||
		v.Holder.Incarnation != v.Cell.Incarnation || v.Holder.State != HolderLive {
		return 0
	}
	return v.Revision
}

// Look reads who leads scope and its echo. It takes no claim, moves no token
// and counts no observation (E19): for status, and for standbys that answer.
func (c *Cells) Look(ctx context.Context, scope string) (View, error) {
	v := View{Scope: scope}
	if err := checkScope(scope); err != nil {
		return v, err
	}
	cell, rev, err := c.readScope(ctx, scope)
	v.Revision = rev
	if errors.Is(err, errNotFound) {
		return v, nil
	}
	if err != nil {
		return v, fmt.Errorf("looking at scope %s: %w", scope, err)
	}
	v.Cell = &cell
	holder, token, err := c.readHolder(ctx, cell.Holder)
	if errors.Is(err, errNotFound) {
		return v, nil
	}
	if err != nil {
		return v, fmt.Errorf("looking at the holder of scope %s: %w", scope, err)
	}
	v.Holder, v.Token = &holder, token
	return v, nil
}
