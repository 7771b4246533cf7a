package events

// newData gives an empty payload of a type in its latest version; nil for a
// type that this release does not know. Every type is at version 1 so far.
func newData(t Type) Data {
	switch t {
	case TypeOpened:
		return &Opened{}
	case TypeReleased:
		return &Released{}
	case TypePaused:
		return &Paused{}
	case TypeResumed:
		return &Resumed{}
	case TypeFormat:
		return &Format{}
	case TypeRequested:
		return &Requested{}
	case TypeAcquired:
		return &Acquired{}
	case TypeGuardExtended:
		return &GuardExtended{}
	case TypeAcquireFailed:
		return &AcquireFailed{}
	case TypeVerified:
		return &Verified{}
	case TypeVerifyFailed:
		return &VerifyFailed{}
	case TypeHandoverStarted:
		return &HandoverStarted{}
	case TypePrepared:
		return &Prepared{}
	case TypeInstalled:
		return &Installed{}
	case TypeRollbackStarted:
		return &RollbackStarted{}
	case TypeRolledBack:
		return &RolledBack{}
	case TypeRenewed:
		return &Renewed{}
	case TypeRenewFailed:
		return &RenewFailed{}
	case TypeRetired:
		return &Retired{}
	case TypeRevoking:
		return &Revoking{}
	case TypeRevoked:
		return &Revoked{}
	case TypeRevokeFailed:
		return &RevokeFailed{}
	case TypeExpired:
		return &Expired{}
	case TypeAdopted:
		return &Adopted{}
	case TypeOrphaned:
		return &Orphaned{}
	case TypeChanged:
		return &Changed{}
	case TypeRegistered:
		return &Registered{}
	case TypeLeft:
		return &Left{}
	case TypeUpdated:
		return &Updated{}
	case TypeRejected:
		return &Rejected{}
	case TypeApplied:
		return &Applied{}
	case TypeRemoved:
		return &Removed{}
	default:
		return nil
	}
}

// Types lists every type of the catalogue, in its order.
func Types() []Type {
	return []Type{
		TypeOpened,
		TypeReleased,
		TypePaused,
		TypeResumed,
		TypeFormat,
		TypeRequested,
		TypeAcquired,
		TypeGuardExtended,
		TypeAcquireFailed,
		TypeVerified,
		TypeVerifyFailed,
		TypeHandoverStarted,
		TypePrepared,
		TypeInstalled,
		TypeRollbackStarted,
		TypeRolledBack,
		TypeRenewed,
		TypeRenewFailed,
		TypeRetired,
		TypeRevoking,
		TypeRevoked,
		TypeRevokeFailed,
		TypeExpired,
		TypeAdopted,
		TypeOrphaned,
		TypeChanged,
		TypeRegistered,
		TypeLeft,
		TypeUpdated,
		TypeRejected,
		TypeApplied,
		TypeRemoved,
	}
}

// EventType implements [Data].
func (*Opened) EventType() Type { return TypeOpened }

// EventVersion implements [Data].
func (*Opened) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Released) EventType() Type { return TypeReleased }

// EventVersion implements [Data].
func (*Released) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Paused) EventType() Type { return TypePaused }

// EventVersion implements [Data].
func (*Paused) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Resumed) EventType() Type { return TypeResumed }

// EventVersion implements [Data].
func (*Resumed) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Format) EventType() Type { return TypeFormat }

// EventVersion implements [Data].
func (*Format) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Requested) EventType() Type { return TypeRequested }

// EventVersion implements [Data].
func (*Requested) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Acquired) EventType() Type { return TypeAcquired }

// EventVersion implements [Data].
func (*Acquired) EventVersion() int { return 1 }

// EventType implements [Data].
func (*GuardExtended) EventType() Type { return TypeGuardExtended }

// EventVersion implements [Data].
func (*GuardExtended) EventVersion() int { return 1 }

// EventType implements [Data].
func (*AcquireFailed) EventType() Type { return TypeAcquireFailed }

// EventVersion implements [Data].
func (*AcquireFailed) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Verified) EventType() Type { return TypeVerified }

// EventVersion implements [Data].
func (*Verified) EventVersion() int { return 1 }

// EventType implements [Data].
func (*VerifyFailed) EventType() Type { return TypeVerifyFailed }

// EventVersion implements [Data].
func (*VerifyFailed) EventVersion() int { return 1 }

// EventType implements [Data].
func (*HandoverStarted) EventType() Type { return TypeHandoverStarted }

// EventVersion implements [Data].
func (*HandoverStarted) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Prepared) EventType() Type { return TypePrepared }

// EventVersion implements [Data].
func (*Prepared) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Installed) EventType() Type { return TypeInstalled }

// EventVersion implements [Data].
func (*Installed) EventVersion() int { return installedVersion }

// EventType implements [Data].
func (*RollbackStarted) EventType() Type { return TypeRollbackStarted }

// EventVersion implements [Data].
func (*RollbackStarted) EventVersion() int { return 1 }

// EventType implements [Data].
func (*RolledBack) EventType() Type { return TypeRolledBack }

// EventVersion implements [Data].
func (*RolledBack) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Renewed) EventType() Type { return TypeRenewed }

// EventVersion implements [Data].
func (*Renewed) EventVersion() int { return 1 }

// EventType implements [Data].
func (*RenewFailed) EventType() Type { return TypeRenewFailed }

// EventVersion implements [Data].
func (*RenewFailed) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Retired) EventType() Type { return TypeRetired }

// EventVersion implements [Data].
func (*Retired) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Revoking) EventType() Type { return TypeRevoking }

// EventVersion implements [Data].
func (*Revoking) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Revoked) EventType() Type { return TypeRevoked }

// EventVersion implements [Data].
func (*Revoked) EventVersion() int { return 1 }

// EventType implements [Data].
func (*RevokeFailed) EventType() Type { return TypeRevokeFailed }

// EventVersion implements [Data].
func (*RevokeFailed) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Expired) EventType() Type { return TypeExpired }

// EventVersion implements [Data].
func (*Expired) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Adopted) EventType() Type { return TypeAdopted }

// EventVersion implements [Data].
func (*Adopted) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Orphaned) EventType() Type { return TypeOrphaned }

// EventVersion implements [Data].
func (*Orphaned) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Changed) EventType() Type { return TypeChanged }

// EventVersion implements [Data].
func (*Changed) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Registered) EventType() Type { return TypeRegistered }

// EventVersion implements [Data].
func (*Registered) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Left) EventType() Type { return TypeLeft }

// EventVersion implements [Data].
func (*Left) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Updated) EventType() Type { return TypeUpdated }

// EventVersion implements [Data].
func (*Updated) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Rejected) EventType() Type { return TypeRejected }

// EventVersion implements [Data].
func (*Rejected) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Applied) EventType() Type { return TypeApplied }

// EventVersion implements [Data].
func (*Applied) EventVersion() int { return 1 }

// EventType implements [Data].
func (*Removed) EventType() Type { return TypeRemoved }

// EventVersion implements [Data].
func (*Removed) EventVersion() int { return 1 }
