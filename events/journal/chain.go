package journal

import "github.com/leasesvc/leasesvc/events"

// Chain gives the scope's chain of MACs after the event at [Writer.Tail].
func (w *Writer) Chain() events.Chain { return w.term.Chain }
