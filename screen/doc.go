// Package screen is the board that leasesvc top shows: what is most urgent first.
//
// A [Board] takes what holders say ([Board.Take]) and the keys that somebody
// presses ([Board.Key]), and renders itself into so many columns and lines
// ([Board.Render]). It knows no terminal, no clock and no network: whoever runs it
// asks once a second and draws.
//
// It holds what the answers hold: no secret. What somebody wrote into a name or a
// message can't move the cursor. A Board belongs to one goroutine. Tested with
// golden frames; leasesvc top itself is tested in a terminal.
package screen
