// Jest takes its configuration from a default export.
export { slowSuite as default } from './jest.config.js'
