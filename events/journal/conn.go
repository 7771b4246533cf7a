package journal

import (
	"time"

	"github.com/nats-io/nats.go"
)

// ConnOptions are the options that a connection used for the log must have: it
// does not buffer while disconnected (what a caller was told is not sent must
// never be sent later), notices a dead server within 2.25 s, so that a holder
// renews from elsewhere before the quiet polls are over, and is back 100 ms
// after one answers.
func ConnOptions() []nats.Option {
	return []nats.Option{
		nats.ReconnectBufSize(-1),
		nats.PingInterval(750 * time.Millisecond),
		nats.MaxPingsOutstanding(2),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.MaxReconnects(-1),
	}
}
