package epochkv

import "sync/atomic"

type stats struct {
	claims, lostRaces, renewals, adopted, deposals, fastDeposals, fenced atomic.Uint64
}

// Stats counts since Open, for the metrics.
type Stats struct {
	Claims       uint64 // scope cells taken
	LostRaces    uint64 // compare-and-sets that another claimant won
	Renewals     uint64 // renewals acknowledged
	Adopted      uint64 // renewals whose lost answer was found by a read (E11)
	Deposals     uint64 // holders deposed by us
	FastDeposals uint64 // of these, by "no responders" (E22)
	Fenced       uint64 // times we were deposed
}

// Stats returns the counters.
func (c *Cells) Stats() Stats {
	return Stats{
		Claims: c.stats.claims.Load(), LostRaces: c.stats.lostRaces.Load(),
		Renewals: c.stats.renewals.Load(), Adopted: c.stats.adopted.Load(),
		Deposals: c.stats.deposals.Load(), FastDeposals: c.stats.fastDeposals.Load(),
		Fenced: c.stats.fenced.Load(),
	}
}
