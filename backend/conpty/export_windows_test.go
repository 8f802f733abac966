package conpty

// StopHelper ends the driver's helper process.
func StopHelper(d *Driver) {
	d.helper.mu.Lock()
	defer d.helper.mu.Unlock()
	d.helper.stop()
}
