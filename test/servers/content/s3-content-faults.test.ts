import { s3ContentFaults } from './s3-content-faults.js'

s3ContentFaults({ runs: 1, length: 20, seed: 1 })
