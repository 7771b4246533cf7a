package service

import (
	"fmt"
	"strings"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/events/journal"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/snapshot"
)

// Role is who somebody is to leasesvc in NATS.
type Role string

// The roles. Only the service may publish events.
const (
	RoleService  Role = "service"
	RoleConsumer Role = "consumer"
	RoleOperator Role = "operator"
	RoleAuditor  Role = "auditor"
)

// Roles lists every role.
func Roles() []Role { return []Role{RoleService, RoleConsumer, RoleOperator, RoleAuditor} }

// Permissions are what one role may publish and subscribe to. Everything else
// is refused by the NATS server.
type Permissions struct {
	Role      Role     `json:"role"`
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	// Responses: it may answer what it is asked.
	Responses bool `json:"allow_responses"`
}

// PermissionOptions narrow what is allowed down.
type PermissionOptions struct {
	// Stream is the log's; empty: [journal.DefaultStream].
	Stream string
	// Scopes and, for consumers, Names that are allowed; none: all.
	Scopes, Names []string
	// Create lets the service make its streams and set what may be set; without
	// it they must be there (leasesvc nats-setup).
	Create bool
}

// inbox is where answers come.
const inbox = "_INBOX.>"

// PermissionsOf gives what a role may do.
func PermissionsOf(role Role, o PermissionOptions) Permissions {
	if o.Stream == "" {
		o.Stream = journal.DefaultStream
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []string{"*"}
	}
	if len(o.Names) == 0 {
		o.Names = []string{"*"}
	}
	p := Permissions{Role: role, Subscribe: []string{inbox}}
	switch role {
	case RoleService:
		p.service(o)
	case RoleConsumer:
		p.consumer(o)
	case RoleOperator:
		p.reads(o)
		for _, op := range []string{api.OpApply, api.OpReissue, api.OpStepDown, api.OpShutdown, api.OpFinalize} {
			p.ask(o.Scopes, op)
		}
		for _, op := range []string{api.OpRotate, api.OpRevoke, api.OpAdopt, api.OpDocumentPut} {
			p.ask(o.Scopes, op, "*")
		}
	case RoleAuditor:
		p.reads(o)
	}
	return p
}

// ask allows an operation on scopes, or on names in them.
func (p *Permissions) ask(scopes []string, op string, names ...string) {
	for _, scope := range scopes {
		if len(names) == 0 {
			p.Publish = append(p.Publish, api.Subject(op, scope))
		}
		for _, name := range names {
			p.Publish = append(p.Publish, api.Subject(op, scope, name))
		}
	}
}

// reads allows to read the log, and what a holder says of itself.
func (p *Permissions) reads(o PermissionOptions) {
	p.stream(o.Stream)
	p.Publish = append(p.Publish, "$SRV.INFO."+api.ServiceName, "$SRV.PING."+api.ServiceName, "$SRV.STATS."+api.ServiceName)
	for _, op := range []string{api.OpStatus, api.OpLeases, api.OpDocumentList} {
		p.ask(o.Scopes, op)
	}
	p.ask(o.Scopes, api.OpDocumentShow, "*")
}

// stream allows to read a stream.
func (p *Permissions) stream(name string) {
	const api = "$JS.API."
	p.Publish = append(p.Publish,
		api+"STREAM.INFO."+name, api+"STREAM.MSG.GET."+name,
		api+"CONSUMER.CREATE."+name+".>", api+"CONSUMER.INFO."+name+".*", api+"CONSUMER.MSG.NEXT."+name+".*", api+"CONSUMER.DELETE."+name+".*",
	)
}

func (p *Permissions) service(o PermissionOptions) {
	for _, scope := range o.Scopes {
		p.Publish = append(p.Publish, events.ScopeFilter(scope), "leasesvc.c."+scope+".>", servingSubject(scope), wire.DocumentHintSubject(scope, "*"))
		p.Subscribe = append(p.Subscribe, "leasesvc.*."+scope, "leasesvc.*."+scope+".*")
	}
	p.Publish = append(p.Publish, "$KV."+epochkv.DefaultBucket+".>", "$KV."+handover.BlobsBucket+".>", "leasesvc.hint.*", "leasesvc.presence.*", "$JS.API.INFO")
	p.Subscribe = append(p.Subscribe, "leasesvc.hint.*", "leasesvc.presence.*", "$SRV.>")
	p.Publish = append(p.Publish, "$O."+snapshot.Bucket+".>", "$JS.API.STREAM.PURGE.OBJ_"+snapshot.Bucket)
	for _, name := range []string{o.Stream, "KV_" + epochkv.DefaultBucket, "KV_" + handover.BlobsBucket, "OBJ_" + snapshot.Bucket} {
		p.stream(name)
		p.Publish = append(p.Publish, "$JS.API.DIRECT.GET."+name, "$JS.API.DIRECT.GET."+name+".>")
		if o.Create {
			p.Publish = append(p.Publish, "$JS.API.STREAM.CREATE."+name, "$JS.API.STREAM.UPDATE."+name)
		}
	}
	p.Responses = true
}

func (p *Permissions) consumer(o PermissionOptions) {
	for _, scope := range o.Scopes {
		p.Publish = append(p.Publish, wire.KeySubject(scope))
		for _, name := range o.Names {
			for _, op := range []wire.Operation{wire.OpGet, wire.OpRegister, wire.OpLeave, wire.OpRefused, wire.OpDocument} {
				p.Publish = append(p.Publish, wire.Subject(op, scope, name))
			}
			p.Subscribe = append(p.Subscribe, wire.ConsumerSubject(scope, name, "*"), wire.RotationSubject(scope, name), wire.DocumentHintSubject(scope, name))
		}
	}
	p.Responses = true
}

// PermissionsConf writes the roles' users as a part of a NATS server's
// configuration. A role whose public nkey is given logs in with it, the others
// with a password from the server's environment.
func PermissionsConf(roles []Permissions, keys map[Role]string) string {
	var b strings.Builder
	b.WriteString("# A part of the NATS server's configuration: include it there. JetStream must be\n" +
		"# enabled in the server. Everything that is not allowed here is refused.\n" +
		"accounts {\n  LEASESVC {\n    jetstream: enabled\n    users: [\n")
	for _, p := range roles {
		login := fmt.Sprintf("user: %q, password: $LEASESVC_%s_PASSWORD", p.Role, strings.ToUpper(string(p.Role)))
		if key := keys[p.Role]; key != "" {
			login = fmt.Sprintf("nkey: %q", key)
		}
		responses := ""
		if p.Responses {
			responses = "\n        allow_responses: true"
		}
		fmt.Fprintf(&b, "      { %s, permissions {\n        publish: { allow: %s }\n        subscribe: { allow: %s }%s\n      } }\n", login, list(p.Publish), list(p.Subscribe), responses)
	}
	b.WriteString("    ]\n  }\n}\n")
	return b.String()
}

// list writes subjects as a list over several lines.
func list(subjects []string) string {
	var b strings.Builder
	b.WriteString("[\n")
	for _, s := range subjects {
		fmt.Fprintf(&b, "          %q\n", s)
	}
	b.WriteString("        ]")
	return b.String()
}
