// Package file puts content into a file so that no reader ever sees part of it,
// or all of it with the wrong mode or owner.
//
// Which function to call: [File.Write] for new content, [Look] before it for what
// was there, [File.Restore] to put that back.
//
// Guarantees. The content is written to a file beside the target, whose owner and
// mode are right before the first byte is in it, and renamed over it. A symbolic
// link stays, its target is replaced. Where the target is a mount point (a file
// that was bind-mounted into a container), or [InPlace] is asked for, it is
// written in place, which readers can see happen; when that fails the old content
// is put back. Content that is there already is not written again; a mode or owner
// that differs is set. Errors name the path and what to do, never the content.
//
// It locks nothing: one writer per file is the caller's matter.
//
// How it is tested: on real files, links, mounts and directories that refuse, with
// a reader that looks all the time.
package file
