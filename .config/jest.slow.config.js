// Jest requires a default export for configurations.
export { slowSuite as default } from './jest.config.js'
