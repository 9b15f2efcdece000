import { s3ContentFaults } from './s3-content-faults.js'

s3ContentFaults({ runs: 5, length: 40 })
