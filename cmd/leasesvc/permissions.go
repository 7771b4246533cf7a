package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/nats-io/nkeys"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

type permissionsCmd struct {
	Config string            `placeholder:"FILE" help:"Take the scopes and the stream from this service file."`
	Scope  []string          `placeholder:"SCOPE" help:"Only these scopes."`
	Name   []string          `placeholder:"NAME" help:"Only these names, for the consumer."`
	Role   []string          `enum:"service,consumer,operator,auditor" placeholder:"ROLE" help:"Only these roles: service, consumer, operator, auditor."`
	Stream string            `default:"LEASESVC" help:"The stream that holds the log."`
	Key    map[string]string `placeholder:"ROLE=KEY" help:"The public nkey that a role logs in with; otherwise the server takes a password from its environment."`
	Create bool              `default:"true" negatable:"" help:"The service makes its streams itself. With --no-create they must be there (see: leasesvc nats-setup)."`
	Output string            `short:"o" enum:"conf,json,yaml" default:"conf" help:"How to print it: conf (for the NATS server's configuration), json or yaml."`
}

func (c permissionsCmd) Run() error {
	o := service.PermissionOptions{Stream: c.Stream, Scopes: c.Scope, Names: c.Name, Create: c.Create}
	if c.Config != "" {
		cfg, err := config.Load(c.Config)
		if err != nil {
			return err
		}
		o.Stream = cfg.NATS.Stream
		if len(o.Scopes) == 0 {
			o.Scopes = cfg.ScopeNames()
		}
	}
	for _, name := range slices.Concat(o.Scopes, o.Names) {
		if err := events.CheckName(name); err != nil {
			return usageError{err}
		}
	}
	keys := map[service.Role]string{}
	for role, key := range c.Key {
		if !slices.Contains(service.Roles(), service.Role(role)) {
			return usageError{fmt.Errorf("--key: there is no role %q; the roles are: %v", role, service.Roles())}
		}
		if !nkeys.IsValidPublicUserKey(key) {
			return usageError{fmt.Errorf("--key %s: not a public user nkey (56 characters, U first)", role)}
		}
		keys[service.Role(role)] = key
	}
	var roles []service.Permissions
	for _, role := range service.Roles() {
		if len(c.Role) == 0 || slices.Contains(c.Role, string(role)) {
			roles = append(roles, service.PermissionsOf(role, o))
		}
	}
	if c.Output != "conf" {
		return output{Output: c.Output}.encode(os.Stdout, roles)
	}
	_, err := fmt.Print(service.PermissionsConf(roles, keys))
	return err
}
