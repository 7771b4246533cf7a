package redislease

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// route is the hook that runs the front client's commands on the client of the
// lease that is current. It never calls next: the front has no connection.
type route struct{ c *Client }

// DialHook implements redis.Hook.
func (route) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (r route) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return r.c.With(ctx, func(client *redis.Client) error { return client.Process(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook. A transaction comes as a pipeline
// between MULTI and EXEC, which the other client puts around it itself.
func (r route) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent := false
		err := r.c.With(ctx, func(client *redis.Client) error {
			sent = true // from here on each command gets an error of its own
			pipe := client.Pipeline()
			if last := len(cmds) - 1; last > 0 && cmds[0].Name() == "multi" && cmds[last].Name() == "exec" {
				pipe, cmds = client.TxPipeline(), cmds[1:last]
			}
			if err := pipe.BatchProcess(ctx, cmds...); err != nil {
				return err
			}
			_, err := pipe.Exec(ctx)
			return err
		})
		if !sent {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}
