"""What tests share: small streams and runs, samples, and programs that are killed."""
