// Package failpoint names the boundaries at which a test kills the process: as
// kill -9 would, at exactly this point. In a program that was not built with the
// tag "failpoints" nothing of it is there.
//
// LEASESVC_FAILPOINT=NAME:N kills the process when the point NAME is reached for
// the N-th time.
package failpoint

// The points, in the order in which a lease's life comes by.
const (
	Intent         = "intent"          // requested is in the log
	GuardMade      = "guard-made"      // Vault made the guard
	CredentialRead = "credential-read" // the one read is over, well or not
	BlobWritten    = "blob-written"    // the values are sealed away
	Acquired       = "acquired"        // acquired is in the log
	Extended       = "extended"        // Vault extended the guard, the log does not know
	Asked          = "asked"           // handover-started is in the log
	Answered       = "answered"        // an answer is in the log
	Installed      = "installed"       // installed is in the log
	Renewing       = "renewing"        // Vault renewed, the log does not know
	Revoking       = "revoking"        // revoking is in the log
	Revoked        = "revoked"         // Vault revoked, the log does not know
)

// All lists the points.
func All() []string {
	return []string{
		Intent, GuardMade, CredentialRead, BlobWritten, Acquired, Extended,
		Asked, Answered, Installed, Renewing, Revoking, Revoked,
	}
}
