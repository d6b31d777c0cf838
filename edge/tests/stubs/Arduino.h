// Stands in for what every Arduino sketch includes.
unsigned long millis();
void delay(unsigned long ms);
void setup();
void loop();
