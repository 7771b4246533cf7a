package failover

import (
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/handover/wire"
)

func TestZZ(t *testing.T) {
	p := newPair(t, 2)
	for round := range 2 {
		server := p.place(2)
		t.Logf("round %d: holder's n%d, asker %s of %s %s %s", round, server, p.asker.nc.ConnectedUrl(), p.d.URLOf(0), p.d.URLOf(1), p.d.URLOf(2))
		p.d.Stop(server)
		begin := time.Now()
		for i := range 14 {
			<-time.After(time.Second)
			asked, failed, _ := p.asker.around(begin.Add(time.Duration(i)*time.Second), begin.Add(time.Duration(i+1)*time.Second-100*time.Millisecond))
			holder := p.in[0].HolderID()
			data, _ := wire.Encode(wire.Get{XKey: p.asker.xkey, Nonce: wire.NewNonce()})
			m, err := p.asker.nc.Request(wire.Subject(wire.OpGet, "prod", "n0"), data, 300*time.Millisecond)
			text := ""
			if m != nil {
				text = string(m.Data[:min(len(m.Data), 60)])
			}
			t.Logf("%2d s: %d of %d failed; asker at %s; holder at n%d; get: %q %v", i+1, failed, asked, p.asker.nc.ConnectedUrl(), p.d.Subscriber("leasesvc.presence."+holder), text, err)
		}
		p.d.Wake(server)
		p.d.AwaitReady()
	}
	b := p.in[0].Output()
	t.Log(b[max(0, len(b)-3000):])
}
