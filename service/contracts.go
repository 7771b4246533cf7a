package service

import (
	"encoding/json"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/leasesvc/leasesvc/handover/wire"
	"github.com/leasesvc/leasesvc/service/api"
)

// contract is what an operation takes and gives, for who looks at the service with
// NATS's own tools.
type contract struct {
	says string
	// request and response are examples of the bodies' types; nil: there is none.
	request, response any
	// sealedRequest and sealedResponse: what goes over the wire is sealed, and the
	// schema is of what is inside.
	sealedRequest, sealedResponse bool
	// signed: the request carries the consumer's signature.
	signed bool
}

// contracts are those of the operations, by the first part of their subject.
var contracts = map[string]contract{
	api.OpStatus:   {says: "who leads the scope, since when, and what needs an eye", response: api.Status{}},
	api.OpLeases:   {says: "the scope's table of names", response: api.Leases{}},
	api.OpRotate:   {says: "asks for a successor of a name's active lease", response: api.Done{}},
	api.OpRevoke:   {says: "takes a name's active lease away at once", response: api.Done{}},
	api.OpReissue:  {says: "asks for successors of all active leases", response: api.Done{}},
	api.OpStepDown: {says: "gives the scope to a standby", response: api.Done{}},
	api.OpFinalize: {says: "ends an upgrade: events may be written in all versions that the release knows", response: api.Done{}},
	api.OpShutdown: {says: "revokes all that the scope owns and leaves it", response: api.Done{}},
	api.OpApply: {
		says: "puts a definitions file in force: the one that is sent or, with no body, the one that the holder has", request: api.Definitions{}, response: api.Done{}, sealedRequest: true,
	},
	api.OpAdopt:             {says: "hands over a lease that was obtained elsewhere", request: api.Adoption{}, response: api.Done{}, sealedRequest: true},
	api.OpDocumentPut:       {says: "changes a settings document", request: api.DocumentUpdate{}, response: api.DocumentDone{}, sealedRequest: true},
	api.OpDocumentShow:      {says: "a settings document without its values", response: api.DocumentShown{}},
	api.OpDocumentList:      {says: "the scope's settings documents", response: api.Documents{}},
	string(wire.OpRegister): {says: "registers an incarnation of a consumer", request: wire.Registration{}, response: wire.Answer{}, signed: true, sealedResponse: true},
	string(wire.OpLeave):    {says: "takes an incarnation off the list", request: wire.Leave{}, response: wire.Left{}, signed: true},
	string(wire.OpRefused):  {says: "reports that a server refuses the committed credential", request: wire.Refused{}, response: wire.Left{}, signed: true},
	string(wire.OpDocument): {says: "a settings document with its values", request: wire.GetDocument{}, response: wire.Document{}, sealedResponse: true},
	string(wire.OpGet):      {says: "the committed credential; every instance answers it, so it is no endpoint of the holder's alone", request: wire.Get{}, response: wire.Got{}, sealedResponse: true},
	string(wire.OpKey):      {says: "the service's public key; every instance answers it, so it is no endpoint of the holder's alone", response: wire.Key{}},
}

// metadata gives the contract as NATS shows it: texts by key.
func (c contract) metadata() map[string]string {
	out := map[string]string{"description": c.says, "request_schema": string(schemaOf(c.request)), "response_schema": string(schemaOf(c.response))}
	if c.sealedRequest {
		out["request_sealed"] = "to the service's key, by the key in the header " + api.HeaderXKey
	}
	if c.sealedResponse {
		out["response_sealed"] = "to the key that the request names"
	}
	if c.signed {
		out["request_signed"] = "by the consumer's nkey, in the header " + wire.SignatureHeader
	}
	if _, ofConsumers := c.response.(wire.Body); ofConsumers {
		out["error_schema"] = string(schemaOf(wire.Refusal{}))
	} else {
		out["error_schema"] = string(schemaOf(api.Problem{}))
	}
	return out
}

// schemaOf gives the schema of a message. One of the protocol with consumers has
// its version and type in front.
func schemaOf(message any) json.RawMessage {
	body, ok := message.(wire.Body)
	if !ok {
		return api.SchemaOf(message)
	}
	var s map[string]any
	if err := json.Unmarshal(api.SchemaOf(message), &s); err != nil {
		return api.SchemaOf(message)
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		properties["v"] = map[string]any{"type": "integer", "minimum": 1}
		properties["type"] = map[string]any{"const": body.Type()}
	}
	required, _ := s["required"].([]any)
	s["required"] = append([]any{"v", "type"}, required...)
	b, err := json.Marshal(s)
	if err != nil {
		return api.SchemaOf(message)
	}
	return b
}

// described holds the metadata of all contracts, made once.
var described = sync.OnceValue(func() map[string]map[string]string {
	out := map[string]map[string]string{}
	for op, c := range contracts {
		out[op] = c.metadata()
	}
	return out
})

// readsMetadata describes the operations that are no endpoints of micro's, for the
// metadata of the service.
func readsMetadata(scope string) map[string]string {
	out := map[string]string{}
	for op, subject := range map[wire.Operation]string{
		wire.OpGet: wire.Subject(wire.OpGet, scope, "*"), wire.OpKey: wire.KeySubject(scope),
	} {
		c := maps.Clone(described()[string(op)])
		c["subject"] = subject
		if b, err := json.Marshal(c); err == nil {
			out["endpoint_"+string(op)] = string(b)
		}
	}
	return out
}

// opCounts counts what became of an operation's requests. micro's own counters see
// them only come in.
type opCounts struct{ answered, refused, busy, nanos atomic.Int64 }

// opStats is what $SRV.STATS says of them, beside micro's own.
type opStats struct {
	// Answered were answered; Refused of them were refusals. Busy were refused at
	// once because too much was in flight.
	Answered int64 `json:"answered"`
	Refused  int64 `json:"refused"`
	Busy     int64 `json:"busy"`
	// Took is how long the answers took together.
	Took float64 `json:"took_s"`
}

func (c *opCounts) stats() opStats {
	return opStats{Answered: c.answered.Load(), Refused: c.refused.Load(), Busy: c.busy.Load(), Took: time.Duration(c.nanos.Load()).Seconds()}
}

// statsOf makes micro's handler of statistics.
func statsOf(counts map[string]*opCounts) micro.StatsHandler {
	return func(e *micro.Endpoint) any {
		if c := counts[e.Name]; c != nil {
			return c.stats()
		}
		return nil
	}
}
