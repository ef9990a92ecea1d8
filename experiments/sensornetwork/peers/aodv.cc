// AODV over 802.11b in ns-3: reads places and sendings, prints what was transmitted and how far packets went.
//
// Input (standard input): the seed and the seconds to run; the number of nodes and a line "x y" for each; the number of
// sendings and a line "time source destination" for each. Output: lines "class count", then "hops" and one number for
// every packet that arrived.
//
// Routes do not expire (the time-outs are longer than any run), hellos are off. Power, thresholds and rates are those of
// the other programs: 250 m are understood, 550 m are noticed.

#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "ns3/aodv-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

namespace {

constexpr uint16_t kAodvPort = 654;
constexpr uint16_t kDataPort = 9;
constexpr uint32_t kPayloadBytes = 64;
constexpr uint8_t kFirstTtl = 64;

std::map<std::string, uint64_t> g_sent;
std::vector<int> g_hops;

void Transmitted(Ptr<const Packet> packet, Ptr<Ipv4>, uint32_t interface) {
    if (interface == 0) {
        return;  // the loop-back, over which AODV holds packets that have no route
    }
    Ptr<Packet> copy = packet->Copy();
    Ipv4Header ip;
    UdpHeader udp;
    copy->RemoveHeader(ip);
    if (ip.GetProtocol() != 17) {
        g_sent["other"]++;
        return;
    }
    copy->RemoveHeader(udp);
    if (udp.GetDestinationPort() != kAodvPort) {
        g_sent["data"]++;
        return;
    }
    aodv::TypeHeader type;
    copy->RemoveHeader(type);
    switch (type.Get()) {
        case aodv::AODVTYPE_RREQ: g_sent["aodv.rreq"]++; break;
        case aodv::AODVTYPE_RREP: g_sent["aodv.rrep"]++; break;
        case aodv::AODVTYPE_RERR: g_sent["aodv.rerr"]++; break;
        default: g_sent["aodv.ack"]++; break;
    }
}

void Delivered(const Ipv4Header& ip, Ptr<const Packet> packet, uint32_t interface) {
    if (interface == 0 || ip.GetProtocol() != 17) {
        return;
    }
    UdpHeader udp;
    packet->PeekHeader(udp);
    if (udp.GetDestinationPort() == kDataPort) {
        g_hops.push_back(kFirstTtl - ip.GetTtl() + 1);
    }
}

void SendPacket(Ptr<Socket> socket, Ipv4Address to) {
    socket->SendTo(Create<Packet>(kPayloadBytes), 0, InetSocketAddress(to, kDataPort));
}

void Drain(Ptr<Socket> socket) {
    while (socket->Recv()) {
    }
}

}  // namespace

int main() {
    uint32_t seed = 1;
    uint32_t count = 0;
    uint32_t sends = 0;
    double end = 0;
    std::cin >> seed >> end >> count;
    RngSeedManager::SetSeed(seed);

    NodeContainer nodes;
    nodes.Create(count);
    Ptr<ListPositionAllocator> places = CreateObject<ListPositionAllocator>();
    for (uint32_t i = 0; i < count; i++) {
        double x = 0;
        double y = 0;
        std::cin >> x >> y;
        places->Add(Vector(x, y, 0.0));
    }
    MobilityHelper mobility;
    mobility.SetPositionAllocator(places);
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(nodes);

    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::TwoRayGroundPropagationLossModel", "Frequency", DoubleValue(914e6),
                               "HeightAboveZ", DoubleValue(1.5));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    phy.Set("TxPowerStart", DoubleValue(24.5));  // 0.2818 W
    phy.Set("TxPowerEnd", DoubleValue(24.5));
    phy.Set("CcaEdThreshold", DoubleValue(-78.07));  // 550 m
    phy.SetPreambleDetectionModel("ns3::ThresholdPreambleDetectionModel", "MinimumRssi", DoubleValue(-64.38));
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue("DsssRate11Mbps"),
                                 "ControlMode", StringValue("DsssRate1Mbps"), "NonUnicastMode",
                                 StringValue("DsssRate1Mbps"), "RtsCtsThreshold", UintegerValue(0));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    NetDeviceContainer devices = wifi.Install(phy, mac, nodes);

    AodvHelper aodv;
    aodv.Set("EnableHello", BooleanValue(false));
    aodv.Set("GratuitousReply", BooleanValue(false));
    aodv.Set("ActiveRouteTimeout", TimeValue(Seconds(1e5)));
    aodv.Set("MyRouteTimeout", TimeValue(Seconds(1e5)));
    InternetStackHelper internet;
    internet.SetRoutingHelper(aodv);
    internet.SetIpv6StackInstall(false);
    internet.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.0.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);

    Config::ConnectWithoutContext("/NodeList/*/$ns3::Ipv4L3Protocol/Tx", MakeCallback(&Transmitted));
    Config::ConnectWithoutContext("/NodeList/*/$ns3::Ipv4L3Protocol/LocalDeliver", MakeCallback(&Delivered));

    std::vector<Ptr<Socket>> sockets;
    for (uint32_t i = 0; i < count; i++) {
        Ptr<Socket> socket = Socket::CreateSocket(nodes.Get(i), UdpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), kDataPort));
        socket->SetIpTtl(kFirstTtl);
        socket->SetRecvCallback(MakeCallback(&Drain));
        sockets.push_back(socket);
    }
    std::cin >> sends;
    for (uint32_t i = 0; i < sends; i++) {
        double time = 0;
        uint32_t from = 0;
        uint32_t to = 0;
        std::cin >> time >> from >> to;
        Simulator::Schedule(Seconds(time), &SendPacket, sockets[from], interfaces.GetAddress(to));
    }
    if (!std::cin) {
        std::cerr << "the input ends too early" << std::endl;
        return 1;
    }
    Simulator::Stop(Seconds(end));
    Simulator::Run();
    Simulator::Destroy();
    for (const auto& [name, number] : g_sent) {
        std::cout << name << " " << number << "\n";
    }
    std::cout << "hops";
    for (int hops : g_hops) {
        std::cout << " " << hops;
    }
    std::cout << std::endl;
    return 0;
}
