//go:build unix && !linux

package proctest

import "syscall"

// endWithParent does nothing: only Linux can.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}
