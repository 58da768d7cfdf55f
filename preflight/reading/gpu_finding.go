package reading

import "github.com/gpuaas/gpuaasctl/diag"

// GPUSubject is what a finding is about.
type GPUSubject struct {
	About string `json:"about,omitempty"` // event | gpu | node
	What  string `json:"what,omitempty"`  // in words: "xid 79", "GPU 3"
	Index *int   `json:"index,omitempty"`
	UUID  string `json:"uuid,omitempty"`
	PCI   string `json:"pci,omitempty"`

	// Of an error: when it was reported, and the first time if that was several times; by whom; the part of the hardware
	// that it names.
	At      diag.Time `json:"at,omitzero"`
	Since   diag.Time `json:"since,omitzero"`
	Sources []string  `json:"sources,omitempty"` // kernel_log, nvml
	Place   string    `json:"place,omitempty"`
}

// GPUFinding is one finding of the policy.
type GPUFinding struct {
	Subject GPUSubject `json:"subject"`
	Health  string     `json:"health,omitempty"`
	Rule    string     `json:"rule,omitempty"` // of the policy; "" if no rule decided
	Why     string     `json:"why,omitempty"`
}

// GPUHealthOf is the health of one GPU.
type GPUHealthOf struct {
	GPUSubject
	Health string `json:"health"`
	Rule   string `json:"rule,omitempty"`
	Why    string `json:"why,omitempty"`
}
