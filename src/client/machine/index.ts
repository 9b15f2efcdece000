/** The client of machines: gets tokens for other services by a key, without a wallet or a session. */
export * from '../wire/errors.js'
export type { DeviceKeyPair } from '../wire/browser.js'
export { MachineClient } from './machine-client.js'
export { createMachineKey } from './machine-key.js'
export type { MachineAlgorithm, MachineCryptoKey, MachineJwk, MachineKey, SignBytes } from './machine-key.js'
export { machineToken, type MachineOptions, type MachineToken, type MachineTokenOptions } from './machine-token.js'
export type { ClientClock } from '../wire/timing.js'
